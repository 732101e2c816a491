"""Checkpoints that a crash, a kill or a full disk cannot take away.

A checkpoint is a folder ``checkpoints/<step>`` with the weights (``model.safetensors``, which also carries
the run's config, so that the file alone can be evaluated), everything else that training needs
(``trainer.pt``) and a manifest with the size and checksum of both. It is written under a temporary name,
flushed to disk and renamed, so the name exists only for complete checkpoints; the previous ones stay until
the new one is in place. Loading takes the newest checkpoint whose manifest matches and says which ones it
had to pass over.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

WEIGHTS, TRAINER, MANIFEST = "model.safetensors", "trainer.pt", "manifest.json"


class CheckpointError(RuntimeError):
    """There is no checkpoint to load, or none that is whole."""


def save(
    folder: Path,
    step: int,
    weights: dict[str, Tensor],
    trainer: dict[str, Any],
    config_json: str,
    keep: int = 2,
) -> Path:
    """Write checkpoint ``step`` below ``folder`` and drop all but the newest ``keep``.

    Raises OSError when the disk does not take it; what was there before is then untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{step:010d}"
    if final.exists():
        if _read_manifest(final) is not None:
            return final
        shutil.rmtree(final)
    _remove_leftovers(folder)
    temporary = folder / f".writing-{step:010d}-{os.getpid()}"
    buffer = io.BytesIO()
    torch.save(trainer, buffer)
    contents = {WEIGHTS: weights_to_bytes(weights, config_json), TRAINER: buffer.getvalue()}
    manifest = {name: {"bytes": len(data), "crc32": zlib.crc32(data)} for name, data in contents.items()}
    contents[MANIFEST] = json.dumps({"step": step, "files": manifest}).encode()
    try:
        temporary.mkdir()
        for name, data in contents.items():
            write_synced(temporary / name, data)
        sync_folder(temporary)
        temporary.rename(final)
        sync_folder(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"{old:010d}", ignore_errors=True)
    return final


def steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint (whole or not), oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.is_dir() and entry.name.isdigit())


def load_newest(folder: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Step, weights and trainer state of the newest whole checkpoint; warns about broken ones it passes
    over.
    """
    found = steps(folder)
    for step in reversed(found):
        path = folder / f"{step:010d}"
        manifest = _read_manifest(path)
        if manifest is None:
            warnings.warn(f"checkpoint {path} is damaged or incomplete; trying the one before it", stacklevel=2)
            continue
        weights, _ = load_weights(path / WEIGHTS)
        trainer = torch.load(path / TRAINER, weights_only=True, map_location="cpu")
        return step, weights, trainer
    raise CheckpointError(f"no whole checkpoint in {folder}" if found else f"no checkpoint in {folder}")


def newest_weights(folder: Path) -> Path:
    """The weights file of the newest whole checkpoint."""
    for step in reversed(steps(folder)):
        if _read_manifest(folder / f"{step:010d}") is not None:
            return folder / f"{step:010d}" / WEIGHTS
    raise CheckpointError(f"no whole checkpoint in {folder}")


def weights_to_bytes(weights: dict[str, Tensor], config_json: str) -> bytes:
    from safetensors.torch import save as to_bytes

    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()}
    return to_bytes(own, metadata={"format": "pt", "sparsam_config": config_json})


def load_weights(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors of a weights file and the config (JSON) it carries."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        metadata = file.metadata() or {}
        return {name: file.get_tensor(name) for name in file.keys()}, metadata.get("sparsam_config")  # noqa: SIM118


def write_synced(path: Path, data: bytes) -> None:
    """Write and flush to the disk itself."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` in one move: a reader sees the old content or the new one."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename survives a power cut (POSIX only)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest when every file matches it, else None."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        for name, expected in manifest["files"].items():
            data = (path / name).read_bytes()
            if len(data) != expected["bytes"] or zlib.crc32(data) != expected["crc32"]:
                return None
        return manifest
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_leftovers(folder: Path) -> None:
    """Folders that a killed process was still writing."""
    for entry in folder.glob(".writing-*"):
        shutil.rmtree(entry, ignore_errors=True)
