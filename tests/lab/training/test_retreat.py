"""A curriculum that goes back to its best weights: when, to what, how fast it goes on, and to the same bits."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sparsam.lab.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.curriculum import Curriculum
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.loop import Run, train
from sparsam.lab.training.progress import Silent
from sparsam.lab.training.retreat import TRIES, Retreat

CURRICULUM = CurriculumConfig(start=2, threshold=0.1, patience=4, retreat=2.0)
CONFIG = RunConfig(
    model=ModelConfig("sam", hidden_size=6, memory_size=16, word_size=4, num_heads=1, k=2),
    task=TaskConfig("copy", {"bits": 3}),
    optimizer=OptimizerConfig("rmsprop", learning_rate=1e-2),
    curriculum=CURRICULUM,
    batch_size=2,
    threads=1,
    tensorboard=False,
)


def weights(learner: Learner) -> torch.Tensor:
    return learner.flat.parameters.detach().clone()


def assert_same_tensors(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def learn(learner: Learner, steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        learner.apply(step, learner.gradient(step, 2), 2)


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
def test_the_learner_goes_on_from_kept_weights_as_it_did_from_them(name: str) -> None:
    learner = Learner(replace(CONFIG, optimizer=replace(CONFIG.optimizer, name=name)))
    learn(learner, 3)
    kept, then = learner.kept(), weights(learner)
    learn(learner, 3, 3)
    first = weights(learner)
    assert not torch.equal(first, then)
    learner.take_back(kept)
    assert torch.equal(weights(learner), then)
    learn(learner, 3, 3)
    assert torch.equal(weights(learner), first)  # so the optimiser's statistics were those of then, too
    learner.take_back(kept)  # what is kept was not changed by going on
    assert torch.equal(weights(learner), then)


def test_it_goes_back_to_the_weights_of_the_lowest_mean_at_half_the_rate() -> None:
    learner = Learner(CONFIG)
    retreat = Retreat(Curriculum(CURRICULUM), learner)
    assert [retreat.update(0.3) for _ in range(4)] == [False] * 4
    best = weights(learner)
    learn(learner, 2)
    assert [retreat.update(0.59) for _ in range(4)] == [False] * 4  # less than twice 0.3
    assert [retreat.update(0.61) for _ in range(4)] == [False, False, False, True]
    assert torch.equal(weights(learner), best) and learner.slower == 0.5
    assert not any(retreat.update(0.2) for _ in range(4))  # lower than ever: half as fast again
    assert learner.slower == 0.75 and retreat.lowest == pytest.approx(0.2)


def test_a_loss_below_the_threshold_is_never_lost() -> None:
    retreat = Retreat(Curriculum(CURRICULUM), Learner(CONFIG))
    assert not any(retreat.update(loss) for loss in [0.001] * 4 + [0.09] * 4)


def test_a_new_level_begins_with_the_weights_that_earned_it() -> None:
    learner = Learner(CONFIG)
    retreat = Retreat(Curriculum(CURRICULUM), learner)
    learner.slower = 0.25
    retreat.rise()
    assert learner.slower == 0.5
    earned = weights(learner)
    learn(learner, 2)
    assert [retreat.update(0.41) for _ in range(4)] == [False, False, False, True]  # 4 times the threshold
    assert torch.equal(weights(learner), earned)


def test_a_level_that_cannot_be_begun_slowly_is_begun_all_the_same() -> None:
    learner = Learner(CONFIG)
    retreat = Retreat(Curriculum(CURRICULUM), learner)
    retreat.rise()
    assert [retreat.update(0.9) for _ in range(4 * TRIES)].count(True) == TRIES
    learn(learner, 2)
    here = weights(learner)
    assert not any(retreat.update(0.9) for _ in range(4))  # nothing to lose: on from where it is
    assert torch.equal(weights(learner), here) and retreat.lowest == pytest.approx(0.9)
    assert learner.slower == 1.5 * 0.5**TRIES
    assert not any(retreat.update(1.7) for _ in range(4)) and any(retreat.update(1.9) for _ in range(4))
    assert torch.equal(weights(learner), here)


def test_a_run_that_ends_lost_ends_with_the_best_weights() -> None:
    learner = Learner(CONFIG)
    retreat = Retreat(Curriculum(CURRICULUM), learner)
    assert not retreat.settle()
    retreat.rise()
    earned = weights(learner)
    learn(learner, 2)
    retreat.update(0.5)
    assert retreat.settle() and torch.equal(weights(learner), earned)


def test_the_best_weights_are_what_such_a_run_leaves_on_disk(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=6, checkpoint_every=6)  # so that the lost weights have been saved already
    learner = Learner(config)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    run = Run(config, folder, learner, Silent())
    run.open_log()
    for _ in range(4):
        run.record(0.3, 1.0)
    best = {name: value.clone() for name, value in learner.model.state_dict().items()}
    learn(learner, 2)
    assert [run.record(0.9, 1.0) for _ in range(2)] == [None, "steps"]
    run.finish("steps")
    run.close()
    assert_same_tensors(load_file(folder.checkpoints / "0000000006" / "model.safetensors"), best)


def test_the_rate_of_a_step_is_the_slower_one() -> None:
    full, half = Learner(CONFIG), Learner(CONFIG)
    half.slower = 0.5
    before = weights(full)
    learn(full, 1)
    learn(half, 1)
    torch.testing.assert_close(2 * (weights(half) - before), weights(full) - before)


def test_a_run_tells_and_the_curriculum_counts_anew(tmp_path: Path) -> None:
    learner = Learner(CONFIG)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    run = Run(CONFIG, folder, learner, Silent())
    run.open_log()
    for loss in [0.3] * 4 + [0.9] * 4 + [0.05] * 3:
        run.record(loss, 1.0)
    run.close()
    events = [json.loads(line) for line in folder.log_file.read_text().splitlines()]
    assert [(e["step"], e["level"], e["slower"]) for e in events if e["kind"] == "retreat"] == [(8, 2, 0.5)]
    assert run.level == 2  # three minibatches since, where the level takes four


def test_an_interrupted_run_ends_on_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restless = replace(CURRICULUM, patience=2, retreat=1.01)
    config = replace(CONFIG, steps=60, curriculum=restless)
    train(config, tmp_path / "whole", quiet=True)
    events = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    steps = [event["step"] for event in events if event["kind"] == "retreat"]
    assert min(steps) < 31 < max(steps)  # else this shows nothing

    record = Run.record

    def interrupted(self: Run, loss: float, norm: float, late: bool | None = None) -> str | None:
        if self.step == 30:
            signal.raise_signal(signal.SIGINT)
        return record(self, loss, norm, late)

    monkeypatch.setattr(Run, "record", interrupted)
    assert train(config, tmp_path / "parts", quiet=True).reason == "interrupted"
    monkeypatch.undo()
    train(config, tmp_path / "parts", resume=True, quiet=True)
    one, other = (tmp_path / name / "checkpoints" / "0000000060" / "model.safetensors" for name in ("whole", "parts"))
    assert_same_tensors(load_file(one), load_file(other))


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"curriculum\.retreat: expected more than 1"):
        CurriculumConfig(retreat=1.0)
    with pytest.raises(ValueError, match=r"curriculum\.retreat: .*no curriculum\.over"):
        CurriculumConfig(retreat=2.0, over=10, max_level=4)
    with pytest.raises(ValueError, match=r"curriculum\.retreat: expected None with workers"):
        train(replace(CONFIG, workers=2), tmp_path / "run", quiet=True)
