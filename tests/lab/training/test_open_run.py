"""A run that cannot start leaves nothing behind, and --force replaces one that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparsam.lab.training import checkpoint, learner
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.lock import Locked, RunLock
from sparsam.lab.training.loop import train


@pytest.mark.parametrize(
    "setting",
    [
        "task.settings.bits=0",
        "device=cuda:99",
        "device=nonsense",
        "weights=nowhere",
        "model.engine=native",  # an LSTM has none
        'loggers=["nowhere:Logger"]',
    ],
)
def test_a_failed_start_leaves_nothing(tiny: Any, tmp_path: Path, setting: str) -> None:
    with pytest.raises((ValueError, RuntimeError, FileNotFoundError)):
        train(tiny(setting), tmp_path / "runs" / "run", quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_fails_in_its_first_minibatch_leaves_nothing(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, step: int, level: int | None) -> float:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(learner.Learner, "gradient", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        train(tiny(), tmp_path / "runs" / "run", quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_put_there_stays(tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError):
        train(tiny("task.settings.bits=0"), tmp_path / "run", quiet=True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    train(tiny("steps=2"), tmp_path / "run", quiet=True)
    train(tiny("steps=3"), tmp_path / "run", quiet=True, force=True)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_force_replaces_a_run_and_only_once_the_new_one_is_proved(tiny: Any, tmp_path: Path) -> None:
    train(tiny("steps=20"), tmp_path / "run", quiet=True)
    with pytest.raises(FileExistsError, match="--force"):
        train(tiny("steps=5"), tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="bits"):
        train(tiny("task.settings.bits=0"), tmp_path / "run", quiet=True, force=True)
    assert checkpoint.steps(tmp_path / "run" / "checkpoints") == [10, 20]
    assert train(tiny("steps=5"), tmp_path / "run", quiet=True, force=True).step == 5
    assert checkpoint.steps(tmp_path / "run" / "checkpoints") == [5]
    assert max(event["step"] for event in RunFolder(tmp_path / "run").events()) == 5


def test_a_run_that_is_in_use_is_neither_resumed_nor_replaced(tiny: Any, tmp_path: Path) -> None:
    train(tiny("steps=5"), tmp_path / "run", quiet=True)
    before = (tmp_path / "run" / "config.json").read_bytes()
    with RunLock(tmp_path / "run"):
        for options in ({"resume": True}, {"force": True}):
            with pytest.raises(Locked, match="in use by process"):
                train(tiny("steps=9"), tmp_path / "run", quiet=True, **options)
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    assert train(tiny("steps=9"), tmp_path / "run", resume=True, quiet=True).step == 9


def test_proving_changes_no_bit(tiny: Any) -> None:
    """The minibatch that is sent through before a run leaves weights and random numbers as they were."""
    import torch

    made = learner.Learner(tiny())
    before, random = made.flat.parameters.clone(), torch.get_rng_state()
    made.probe(0, None)
    assert torch.equal(before, made.flat.parameters) and torch.equal(random, torch.get_rng_state())
    assert not made.flat.gradients.any()


def test_weights_that_could_not_be_saved_end_a_run_with_an_error(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoint.write_synced

    def refuse(path: Path, data: bytes) -> None:
        if any(step in str(path) for step in ("0000000020", "0000000030")):
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(checkpoint, "write_synced", refuse)
    with pytest.warns(UserWarning, match="No space left"), pytest.raises(checkpoint.NotSaved) as caught:
        train(tiny(), tmp_path / "run", quiet=True)
    assert "minibatch 30" in str(caught.value) and "minibatch 10 is on disk" in str(caught.value)
    assert RunFolder(tmp_path / "run").result() is None
    monkeypatch.setattr(checkpoint, "write_synced", write)
    assert train(tiny(), tmp_path / "run", resume=True, quiet=True).step == 30
