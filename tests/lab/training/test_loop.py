"""Resume equality, interruption, refusal of non-finite losses, and a full disk. Kills: `faults/scenarios.py`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsam.lab.training import checkpoint, learner, loop
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.loop import train
from sparsam.lab.training.trained import load_model
from tests.lab.training.faults.injection import numbers, same_bits, weights


def test_a_run_leaves_its_full_story(tiny: Any, tmp_path: Path) -> None:
    config = tiny("tensorboard=true")
    outcome = train(config, tmp_path / "run", quiet=True)
    folder = RunFolder(tmp_path / "run")
    assert outcome.reason == "steps" and outcome.step == 30
    assert folder.config() == config
    origin = json.loads((folder.path / "origin.json").read_text())
    assert origin["versions"]["torch"] == torch.__version__ and origin["command"]
    assert [event["step"] for event in folder.events("train")] == [5, 10, 15, 20, 25, 30]
    assert [event["step"] for event in folder.events("eval")] == [10, 20, 30]
    assert folder.result()["evaluation"] == outcome.evaluation  # type: ignore[index]
    assert any((folder.path / "tensorboard").iterdir())
    model, task, _ = load_model(folder.path)
    assert model(task.sample(2, torch.Generator()).inputs)[0].shape[2] == task.output_size
    with pytest.raises(FileExistsError, match="already holds a run"):
        train(config, tmp_path / "run", quiet=True)


def test_the_same_config_gives_the_same_bits_and_another_seed_does_not(tiny: Any, tmp_path: Path) -> None:
    for name, settings in (("a", ()), ("b", ()), ("c", ("seed=1",))):
        train(tiny(*settings), tmp_path / name, quiet=True)
    assert same_bits(tmp_path / "a", tmp_path / "b")
    assert not same_bits(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_resuming_ends_on_the_same_bits(tiny: Any, tmp_path: Path, optimizer: str) -> None:
    settings = (f"optimizer.name={optimizer}", "curriculum.threshold=0.7", "curriculum.patience=4",
                "curriculum.max_level=8", "checkpoint_every=7")  # fmt: skip
    train(tiny(*settings), tmp_path / "whole", quiet=True)
    train(tiny(*settings, "steps=13"), tmp_path / "parts", quiet=True)
    train(tiny(*settings, "steps=22"), tmp_path / "parts", resume=True, quiet=True)
    train(tiny(*settings), tmp_path / "parts", resume=True, quiet=True)
    assert same_bits(tmp_path / "whole", tmp_path / "parts")
    whole = [line for line in numbers(tmp_path / "whole") if line[0] != "eval"]
    assert [line for line in numbers(tmp_path / "parts") if line[0] != "eval"] == whole
    assert any(line[0] == "level" for line in whole)


def test_a_resumed_run_takes_the_new_learning_rate(tiny: Any, tmp_path: Path) -> None:
    train(tiny("steps=10"), tmp_path / "run", quiet=True)
    before = weights(tmp_path / "run")
    train(tiny("steps=12", "optimizer.learning_rate=1e-12", "optimizer.momentum=0"), tmp_path / "run", True, quiet=True)
    for name, after in weights(tmp_path / "run").items():
        torch.testing.assert_close(after, before[name], rtol=0, atol=1e-9)


def test_a_run_starts_from_trained_weights(tiny: Any, tmp_path: Path) -> None:
    train(tiny("steps=10"), tmp_path / "first", quiet=True)
    still = ("optimizer.learning_rate=1e-12", "optimizer.momentum=0", "steps=2")
    train(tiny(f"weights={tmp_path / 'first'}", "seed=5", *still), tmp_path / "second", quiet=True)
    for name, after in weights(tmp_path / "second").items():
        torch.testing.assert_close(after, weights(tmp_path / "first")[name], rtol=0, atol=1e-9)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train(tiny("weights=nowhere"), tmp_path / "third", quiet=True)


def test_sam_resumes_to_the_same_bits(tiny: Any, tmp_path: Path) -> None:
    settings = ("model.name=sam", "model.memory_size=32", "model.word_size=4", "model.num_heads=2", "steps=10")
    train(tiny(*settings), tmp_path / "whole", quiet=True)
    train(tiny(*settings, "steps=4"), tmp_path / "parts", quiet=True)
    train(tiny(*settings), tmp_path / "parts", resume=True, quiet=True)
    assert same_bits(tmp_path / "whole", tmp_path / "parts")


def test_a_damaged_newest_checkpoint_still_ends_on_the_same_bits(tiny: Any, tmp_path: Path) -> None:
    train(tiny(), tmp_path / "whole", quiet=True)
    train(tiny("steps=20"), tmp_path / "parts", quiet=True)
    (tmp_path / "parts" / "checkpoints" / "0000000020" / "trainer.pt").write_bytes(b"half")
    with pytest.warns(UserWarning, match="damaged"):
        train(tiny(), tmp_path / "parts", resume=True, quiet=True)
    assert same_bits(tmp_path / "whole", tmp_path / "parts")
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "parts")


def test_solved_and_seconds_end_a_run(tiny: Any, tmp_path: Path) -> None:
    assert train(tiny("stop_below=1000"), tmp_path / "a", quiet=True).reason == "solved"
    assert train(tiny("seconds=0.0001", "steps=100000"), tmp_path / "b", quiet=True).reason == "seconds"


def test_a_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparsam.lab.tasks.bits.copy import Copy

    calls = iter(range(1000))

    def loss(self: Copy, outputs: torch.Tensor, batch: Any) -> torch.Tensor:
        return outputs.square().sum() * (float("nan") if next(calls) == 23 else 1.0)

    monkeypatch.setattr(Copy, "loss", loss)
    with pytest.raises(learner.NonFiniteLoss, match="lower learning rate"):
        train(tiny("eval_every=1000"), tmp_path / "run", quiet=True)
    step, good, _ = checkpoint.load_newest(tmp_path / "run" / "checkpoints")
    assert step == 20 and all(tensor.isfinite().all() for tensor in good.values())


def test_with_patience_a_loss_that_is_not_finite_is_passed_over_and_logged(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparsam.lab.tasks.bits.copy import Copy

    calls = iter(range(1000))

    def loss(self: Copy, outputs: torch.Tensor, batch: Any) -> torch.Tensor:
        return outputs.square().mean() * (float("nan") if next(calls) == 24 else 1.0)  # one call proves the settings

    monkeypatch.setattr(Copy, "loss", loss)
    settings = ("eval_every=1000", "optimizer.patience=1", "curriculum.patience=5", "curriculum.threshold=1.0")
    assert train(tiny(*settings), tmp_path / "run", quiet=True).reason == "steps"
    folder = RunFolder(tmp_path / "run")
    assert [(event["step"], event["loss"]) for event in folder.events("passed_over")] == [(24, "nan")]
    assert all(tensor.isfinite().all() for tensor in weights(folder.path).values())
    assert all(event["loss"] == event["loss"] for event in folder.events("train"))  # no NaN in the means
    assert folder.events("level")[-1]["step"] > 24  # and none in the curriculum


@pytest.mark.parametrize("seed", range(3))
def test_an_evaluation_asks_for_sequences_of_the_level_itself(tiny: Any, tmp_path: Path, seed: int) -> None:
    """A model that guesses has the error of guessing at the level: short sequences do not hide what is not learned."""
    settings = ("curriculum.threshold=100", "curriculum.patience=1", "curriculum.max_level=64", "eval_batches=2")
    train(tiny(*settings, f"seed={seed}", "optimizer.learning_rate=1e-9"), tmp_path / "run", quiet=True)
    last = RunFolder(tmp_path / "run").events("eval")[-1]
    chance = 64 * 2 / 2
    assert last["level"] == 64 and 0.8 * chance < last["bits_per_sequence"] < 1.2 * chance


def test_a_full_disk_costs_a_warning_not_the_run(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny(), tmp_path / "whole", quiet=True)
    write = checkpoint.write_synced

    def refuse(path: Path, data: bytes) -> None:
        if "0000000020" in str(path):
            write(path, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(checkpoint, "write_synced", refuse)
    with pytest.warns(UserWarning, match="No space left"):
        assert train(tiny(), tmp_path / "run", quiet=True).reason == "steps"
    assert checkpoint.steps(tmp_path / "run" / "checkpoints") == [10, 30]
    assert same_bits(tmp_path / "whole", tmp_path / "run")


def test_a_config_that_cannot_be_built_leaves_no_folder(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bits"):
        train(tiny("task.settings.bits=0"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_interrupt_saves_and_resumes(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny(), tmp_path / "whole", quiet=True)
    record = loop.Run.record

    def interrupted(self: loop.Run, loss: float, norm: float, late: bool | None = None) -> str | None:
        if self.step == 16:
            signal.raise_signal(signal.SIGINT)
        return record(self, loss, norm, late)

    monkeypatch.setattr(loop.Run, "record", interrupted)
    outcome = train(tiny(), tmp_path / "parts", quiet=True)
    assert outcome.reason == "interrupted" and outcome.signal == signal.SIGINT
    assert checkpoint.load_newest(tmp_path / "parts" / "checkpoints")[0] == outcome.step < 20
    monkeypatch.setattr(loop.Run, "record", record)
    train(tiny(), tmp_path / "parts", resume=True, quiet=True)
    assert same_bits(tmp_path / "whole", tmp_path / "parts")
