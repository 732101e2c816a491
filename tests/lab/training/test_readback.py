"""Losses that are read later: the same training, the same log, and minibatches passed over all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import Learner, NonFiniteLoss
from sparsam.lab.training.loop import Run
from sparsam.lab.training.progress import Silent
from sparsam.lab.training.readback import Readback


def train(config: Any, folder: Path, deferred: bool, steps: int = 12, broken: tuple[int, ...] = ()) -> Learner:
    learner = Learner(config)
    learner.deferred = deferred
    run_folder = RunFolder(folder)
    run_folder.create(config)
    run = Run(config, run_folder, learner, Silent())
    run.open_log()
    for step in range(steps):
        loss = learner.gradient(step, None)
        if step in broken:
            learner.flat.gradients[3] = float("nan")
        run.record(loss, learner.apply(step, loss))
    run.save()
    run.close()
    return learner


def lines(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in e.items() if "second" not in k} for e in events if e["kind"] in kinds]


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
@pytest.mark.parametrize("broken", [(), (5, 6)])
def test_training_and_log_are_the_same(tiny: Any, tmp_path: Path, name: str, broken: tuple[int, ...]) -> None:
    config = tiny("log_every=4")
    config.optimizer.name, config.optimizer.patience = name, 2
    plain = train(config, tmp_path / "plain", False, broken=broken)
    late = train(config, tmp_path / "late", True, broken=broken)
    torch.testing.assert_close(plain.flat.parameters, late.flat.parameters)
    logs = [lines(tmp_path / folder, "train", "passed_over") for folder in ("plain", "late")]
    for first, second in zip(*logs, strict=True):
        assert {k: pytest.approx(v, rel=1e-4) if isinstance(v, float) else v for k, v in first.items()} == second
    assert len([e for e in logs[0] if e["kind"] == "passed_over"]) == len(broken)


def test_a_broken_minibatch_changes_nothing(tiny: Any) -> None:
    for name in ("rmsprop", "adam"):
        config = tiny()
        config.optimizer.name = name
        learner = Learner(config)
        learner.deferred = True
        for step in range(3):
            learner.apply(step, learner.gradient(step, None))
        before = learner.flat.parameters.clone()
        loss = learner.gradient(3, None)
        learner.flat.gradients[0] = float("inf")
        learner.apply(3, loss)
        assert torch.equal(before, learner.flat.parameters)


def test_too_many_broken_ones_end_the_run(tiny: Any, tmp_path: Path) -> None:
    config = tiny()
    config.optimizer.patience = 1
    with pytest.raises(NonFiniteLoss, match="minibatch 4"):
        train(config, tmp_path / "run", True, broken=(2, 3))


def test_numbers_arrive_in_order_and_once() -> None:
    readback = Readback()
    for step in (1, 2, 3):
        readback.send(step, torch.tensor(float(step)), torch.tensor(10.0 * step))
    assert [(n.step, n.loss, n.norm) for n in readback.arrived()] == [(1, 1.0, 10.0), (2, 2.0, 20.0), (3, 3.0, 30.0)]
    assert list(readback.arrived(all_of_them=True)) == []


class Slow:
    """An event of a device that is busy until somebody waits for it."""

    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True


def test_the_host_is_at_most_so_far_ahead() -> None:
    readback = Readback(most=2)
    for step in range(1, 6):
        readback._on_their_way.append((step, torch.zeros(2), Slow()))  # type: ignore[arg-type]
        came = [n.step for n in readback.arrived()]
        assert came == ([step - 2] if step > 2 else [])
    assert [n.step for n in readback.arrived(all_of_them=True)] == [4, 5]
