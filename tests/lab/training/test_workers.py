"""Asynchronous workers learn, and end when something ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.loop import Run, train


def test_two_workers_learn_and_resume(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine one worker may solve the task before the other has started: the run waits for both."""
    folder = RunFolder(tmp_path / "run")

    def workers() -> set[int]:
        return {event["worker"] for event in folder.events("worker")}

    def record(self: Run, *numbers: Any) -> str | None:
        reason = recorded(self, *numbers)
        return None if reason == "solved" and len(workers()) < self.config.workers else reason

    recorded = Run.record
    monkeypatch.setattr(Run, "record", record)
    settings = ("model.hidden_size=32", "task.settings.max_size=1", "eval_every=50", "log_every=50",
                "optimizer.learning_rate=0.01", "optimizer.momentum=0", "eval_batch_size=64")  # fmt: skip
    first = train(tiny(*settings, "steps=50", "workers=1"), tmp_path / "run", quiet=True)
    assert first.reason == "steps" and first.step == 50
    more = ("steps=1000000", "stop_below=0.01", "workers=2")
    second = train(tiny(*settings, *more), tmp_path / "run", resume=True, quiet=True)
    assert second.reason == "solved" and second.step > 50
    assert workers() == {1, 2}
    losses = [event["loss"] for event in folder.events("train")]
    assert losses[-1] < losses[0]


def test_a_worker_that_fails_ends_the_run(tiny: Any, tmp_path: Path) -> None:
    """A gradient beyond all floats: the worker that meets it says so."""
    from sparsam.lab.training.learner import NonFiniteLoss

    with pytest.raises(NonFiniteLoss, match="lower learning rate"):
        train(tiny("workers=1", "optimizer.learning_rate=1e38", "optimizer.clip=0"), tmp_path / "run", quiet=True)


def test_workers_need_the_cpu(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises((ValueError, RuntimeError, AssertionError)):
        train(tiny("workers=2", "device=meta"), tmp_path / "run", quiet=True)
