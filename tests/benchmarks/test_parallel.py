"""Readings of parallel training from made-up runs, and one real run in a process of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import parallel
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.folder import RunFolder


def made_up(form: str, count: int, config: RunConfig, folder: Path, timeout: float) -> RunFolder:
    """A run of 100 sequences per second and process, slow in its first quarter; torchrun does not solve copy."""
    made = RunFolder(folder)
    made.create(config)
    lines = [{"kind": "train", "step": 1, "seconds": 10 + i, "sequences": 100 * count * i} for i in range(1, 9)]
    lines.insert(0, {"kind": "train", "step": 0, "seconds": 1, "sequences": 1})
    made.log_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reason = "seconds" if form == "torchrun" else "solved"
    made.write_result({"reason": reason, "seconds": 12.0 / count, "sequences": 7, "evaluation": {}})
    return made


def test_lines_for_every_form_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "launch", made_up)
    report = parallel.run(tmp_path / "out", [1, 2], seconds=5, seeds=2, limit=9)
    raw = json.loads((tmp_path / "out" / "parallel.json").read_text())["raw"]
    assert list(raw) == ["alone 1", "workers 1", "workers 2", "torchrun 2"]
    assert raw["workers 2"]["sequences per second"] == {"1 to 20": 200, "200": 200}
    assert [entry["seconds"] for entry in raw["workers 2"]["solved"]] == [6, 6]
    assert raw["torchrun 2"]["solved"][0]["seconds"] is None
    assert any(line.figure == "workers, 2: copy below 0.1 bits (2 of 2 seeds)" for line in report.lines)
    assert not any("torchrun, 2: copy below" in line.figure for line in report.lines)


def test_a_run_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[Any] = ["steps=3", "model.hidden_size=8", "model.memory_size=16", "eval_batches=1", "log_every=1"]
    folder = parallel.launch("alone", 1, parallel.copy_config(0, 60).with_settings(settings), tmp_path / "run", 120)
    assert len(folder.events("train")) == 3
    monkeypatch.setattr(parallel.sys, "executable", shutil.which("false"))
    with pytest.raises(RuntimeError, match="alone with 1 processes failed"):
        parallel.launch("alone", 1, parallel.copy_config(0, 60), tmp_path / "run", 120)
