"""What survives: half-written files, flipped bits, a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sparsam.lab.training import checkpoint

WEIGHTS = {"w": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}


def save(folder: Path, step: int, **options: int) -> Path:
    return checkpoint.save(folder, step, WEIGHTS, {"step": step, "t": torch.tensor([step])}, "{}", **options)


def test_round_trip_and_only_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    assert checkpoint.steps(tmp_path) == [20, 30]
    step, weights, trainer = checkpoint.load_newest(tmp_path)
    assert step == 30 and trainer["t"].item() == 30
    assert all(torch.equal(weights[name], WEIGHTS[name]) for name in WEIGHTS)


@pytest.mark.parametrize("name", [checkpoint.WEIGHTS, checkpoint.TRAINER, checkpoint.MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_a_damaged_newest_one_falls_back_to_the_previous(tmp_path: Path, name: str, damage: str) -> None:
    save(tmp_path, 10)
    file = save(tmp_path, 20) / name
    data = file.read_bytes()
    if damage == "remove":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    else:
        file.write_bytes(data[:-3] + bytes([data[-3] ^ 0xFF]) + data[-2:])
    with pytest.warns(UserWarning, match="damaged or incomplete"):
        step, _, _ = checkpoint.load_newest(tmp_path)
    assert step == 10
    with pytest.raises(checkpoint.CheckpointError, match="minibatch 10 is whole: --accept damage"):
        checkpoint.newest_weights(tmp_path)
    with pytest.warns(UserWarning, match="damaged"):
        assert checkpoint.newest_weights(tmp_path, older=True).parent.name.endswith("10")


def test_a_folder_still_being_written_is_not_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 10)
    half = tmp_path / ".writing-0000000020-1"
    half.mkdir()
    (half / checkpoint.WEIGHTS).write_bytes(b"half")
    assert checkpoint.load_newest(tmp_path)[0] == 10
    save(tmp_path, 30)
    assert not half.exists()


def test_a_damaged_checkpoint_is_written_again(tmp_path: Path) -> None:
    (save(tmp_path, 10) / checkpoint.TRAINER).write_bytes(b"")
    save(tmp_path, 10)
    assert checkpoint.load_newest(tmp_path)[0] == 10


def test_nothing_to_load_is_said(tmp_path: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match="no checkpoint"):
        checkpoint.load_newest(tmp_path / "none")


def test_a_disk_that_refuses_leaves_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 10)
    write = checkpoint.write_synced

    def refuse(path: Path, data: bytes) -> None:
        write(path, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_synced", refuse)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 20)
    assert checkpoint.load_newest(tmp_path)[0] == 10
    assert [path.name for path in tmp_path.iterdir()] == ["0000000010"]
