"""All recall tests in one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparsam.lab.recipes import beside


def test_runs_become_one_record(tmp_path: Path) -> None:
    run, out = tmp_path / "mqar" / "large-memory-0", tmp_path / "out"
    run.mkdir(parents=True)
    out.mkdir()
    (run / "result.json").write_text(json.dumps({"step": 3, "seconds": 1.0, "reason": "steps", "evaluation": {}}))
    tests = {
        "slices.json": {"4 pairs in 64": {"error_rate": 0.0}},
        "lengths.json": {"1,000 pairs": {"error_rate": 0.5}},
    }
    for file, found in tests.items():
        (run / file).write_text(json.dumps(found))
    (tmp_path / "mqar" / "cost-cpu.json").write_text(json.dumps({"memory": {"256": {"seconds_per_token": 1e-5}}}))
    beside.main([str(tmp_path), str(out)])
    found = json.loads((out / "beside.json").read_text())
    assert found["mqar"]["large-memory-0"]["tests"] == {**tests["slices.json"], **tests["lengths.json"]}
    assert found["mqar"]["large-memory-0"]["step"] == 3 and list(found["cost"]) == ["cost-cpu"]
    with pytest.raises(ValueError, match="root: expected a folder with runs that have ended"):
        beside.collect(out)
