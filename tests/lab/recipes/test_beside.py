"""All recall tests in one file and one picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparsam.lab.recipes import beside


def _run(folder: Path, file: str, tests: dict[str, dict]) -> None:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"step": 3, "seconds": 1.0, "reason": "steps", "evaluation": {}}))
    (folder / file).write_text(json.dumps(tests))


def test_runs_become_numbers_and_numbers_a_picture(tmp_path: Path) -> None:
    _run(tmp_path / "mqar" / "zoology-memory-0", "slices.json", {"4 pairs in 64": {"error_rate": 0.0}})
    _run(tmp_path / "mqar" / "zoology-memory-1", "slices.json", {"4 pairs in 64": {"error_rate": 0.5}})
    long = {
        "1,000 tokens": {"error_rate": 0.25},
        "1,000 tokens, 64 rows, delta 0.5": {"error_rate": 0.1},
        "1,000 tokens, auto": {"error_rate": 0.3},
        "1,000 tokens, auto, K 1": {"error_rate": 0.2},
        "1,000 tokens, K 1": {"error_rate": 0.05},
        "1,000,000 tokens": {"error_rate": 0.0, "stopped_at": 9},
        "2,000 tokens": {"error_rate": None},
    }
    _run(tmp_path / "selective-copy" / "selective-copy-hold-memory-selective-0", "lengths.json", long)
    mixed = {"32 elements": {"error_rate": 0.0}, "8 pairs in 64": {"error_rate": 1.0}}
    _run(tmp_path / "word-problem" / "both-sam-0", "lengths.json", mixed)
    figures = {"seconds_per_token": 1e-5, "training_seconds_per_token": 3e-5, "training_bytes_per_token": 100.0}
    for model in ("memory", "attention"):
        (tmp_path / "mqar" / f"cost-cpu-{model}.json").write_text(json.dumps({model: {"256": figures}}))
    out = tmp_path / "out"
    out.mkdir()
    assert beside.main([str(tmp_path), str(out)]) == out / "beside.png"
    found = json.loads((out / "beside.json").read_text())
    assert beside.points(found["mqar"], "zoology", "pairs") == {"memory": {4: [100.0, 50.0]}}
    name = "hold-memory-selective"
    found_lines = beside.points(found["selective-copy"], "", "tokens")
    assert found_lines == {name: {1000: [75.0]}, f"{name}, 64 rows": {1000: [90.0]}, f"{name}, K 1": {1000: [95.0]}}
    assert beside.points(found["word-problem"], "both", "elements") == {"sam": {32: [100.0]}}
    assert list(beside.cpu_costs(found)) == ["attention", "memory"]
    assert (out / "beside_cost.png").stat().st_size > 10_000
    (out / "beside.png").unlink()
    beside.main([str(out / "beside.json"), str(out)])
    assert (out / "beside.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="root: expected a folder with runs that have ended"):
        beside.collect(out)
