"""Checkpoints that a crash, a kill or a full disk cannot take away.

A checkpoint is a folder `checkpoints/<step>` with the weights (`model.safetensors`, which also carries
the run's config, so that the file alone can be evaluated), everything else that training needs
(`trainer.pt`) and a manifest with the size and checksum of both. It is written under a temporary name,
flushed to disk and renamed, so the name exists only for complete checkpoints; the previous ones stay until
the new one is in place. Loading takes the newest checkpoint whose manifest matches and says which ones it
had to pass over. Nothing in a checkpoint is executed, and nothing is unpacked beyond its size on disk.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import pickletools
import re
import shutil
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.training.files import remove_leftovers, sync_folder, write_synced
from sparsam.weights import CONFIG_KEY, MODEL_KEY, check_header, open_plain, read_plain

WEIGHTS, TRAINER, MANIFEST = "model.safetensors", "trainer.pt", "manifest.json"
_LARGEST_MANIFEST = 1 << 20
_MADE = ("collections OrderedDict", "torch._utils _rebuild_tensor_v2")  # in a trainer's state


class CheckpointError(RuntimeError):
    """There is no checkpoint to load, none that is whole, or a weights file that cannot be read."""


class NoCheckpoint(CheckpointError):
    """The run has not come to its first checkpoint."""


class NotSaved(RuntimeError):
    """A run has ended and its last weights could not be written."""


def save(
    folder: Path,
    step: int,
    weights: dict[str, Tensor],
    trainer: dict[str, Any],
    config_json: str,
    described: str | None = None,
    keep: int = 2,
) -> Path:
    """Write checkpoint `step` below `folder` and drop all but the newest `keep`.

    `described` is the model's description, for `sparsam.load`.

    Raises OSError when the disk does not take it; what was there before is then untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{step:010d}"
    remove_leftovers(folder)
    temporary = folder / f".writing-{step:010d}-{os.getpid()}"
    buffer = io.BytesIO()
    torch.save(trainer, buffer)
    contents = {WEIGHTS: weights_to_bytes(weights, config_json, described), TRAINER: buffer.getvalue()}
    manifest = {name: {"bytes": len(data), "crc32": zlib.crc32(data)} for name, data in contents.items()}
    contents[MANIFEST] = json.dumps({"step": step, "files": manifest}).encode()
    try:
        temporary.mkdir()
        for name, data in contents.items():
            write_synced(temporary / name, data)
        sync_folder(temporary)
        if final.exists():  # one that could not be loaded, or the run would be past it
            _delete(final)
        temporary.rename(final)
        sync_folder(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    found = steps(folder)
    later = [other for other in found if other > step]  # could not be loaded, or the run would not be here
    for other in [*later, *found[: max(0, len(found) - len(later) - keep)]]:
        _delete(folder / f"{other:010d}")
    return final


def steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint (whole or not), oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if re.fullmatch("[0-9]{10,18}", entry.name))


def whole_steps(folder: Path) -> list[int]:
    """The steps that have a whole checkpoint, oldest first."""
    return [step for step in steps(folder) if _damage(folder / f"{step:010d}") is None]


def load_newest(folder: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Step, weights and trainer state of the newest whole checkpoint; warns about broken ones it passes over.

    Raises NoCheckpoint where there is none, CheckpointError where none is whole.
    """
    found = steps(folder)
    for step in reversed(found):
        path = folder / f"{step:010d}"
        try:
            contents = _read(path)
            weights = _tensors(contents[WEIGHTS])
            require_finite(weights, path)
            return step, weights, plain_state(contents[TRAINER])
        except CheckpointError as error:
            warnings.warn(
                f"checkpoint {path} is damaged or incomplete ({error}); trying the one before it", stacklevel=2
            )
    if found:
        raise CheckpointError(f"no whole checkpoint in {folder} (damaged: {', '.join(map(str, found))})")
    raise NoCheckpoint(f"no checkpoint in {folder}")


def newest_weights(folder: Path, older: bool = False) -> Path:
    """The weights file of the newest checkpoint; with `older` one before it will do when it is damaged."""
    found = steps(folder)
    for step in reversed(found):
        path = folder / f"{step:010d}"
        damage = _damage(path)
        if damage is None:
            return path / WEIGHTS
        if not older:
            raise CheckpointError(f"checkpoint {path} is damaged ({damage}){_instead(folder, step)}")
        warnings.warn(f"checkpoint {path} is damaged ({damage}); trying the one before it", stacklevel=2)
    if found:
        raise CheckpointError(f"no whole checkpoint in {folder}")
    raise NoCheckpoint(f"no checkpoint in {folder}")


def _instead(folder: Path, damaged: int) -> str:
    whole = [step for step in whole_steps(folder) if step < damaged]
    return f"; the one of minibatch {whole[-1]} is whole: --accept damage takes it" if whole else ", and none is whole"


def weights_to_bytes(weights: dict[str, Tensor], config_json: str, described: str | None = None) -> bytes:
    from safetensors.torch import save as to_bytes

    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights.items()}
    metadata = {"format": "pt", CONFIG_KEY: config_json} | ({} if described is None else {MODEL_KEY: described})
    return to_bytes(own, metadata=metadata)


def load_weights(path: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors of a weights file, and the config (JSON) it carries.

    Raises CheckpointError when it is not a weights file, or not a whole one, or holds numbers that are not finite.
    """
    from safetensors import SafetensorError, safe_open

    try:
        check_header(path)
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError, MemoryError, RuntimeError) as error:
        raise CheckpointError(f"{path} is not a weights file that can be read ({error})") from error
    require_finite(tensors, path)
    return tensors, metadata.get(CONFIG_KEY)


def require_finite(weights: dict[str, Tensor], path: Path) -> None:
    """Raises CheckpointError naming a tensor that holds NaN or infinity."""
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{path}: {name} holds numbers that are not finite")


def _read(path: Path) -> dict[str, bytes]:
    """The files of a checkpoint, whole; raises CheckpointError saying what is wrong."""
    try:
        manifest = json.loads(read_plain(path / MANIFEST, _LARGEST_MANIFEST))
        files = manifest["files"]
        if set(files) != {WEIGHTS, TRAINER} or manifest["step"] != int(path.name):
            raise CheckpointError(f"{MANIFEST} belongs to another checkpoint")
        contents = {}
        for name in (WEIGHTS, TRAINER):
            size, checksum = files[name]["bytes"], files[name]["crc32"]
            if (path / name).stat().st_size != size:
                raise CheckpointError(f"{name} has another size than when it was written")
            with open_plain(path / name) as file:
                contents[name] = file.read()
            if zlib.crc32(contents[name]) != checksum:
                raise CheckpointError(f"{name} has changed since it was written")
        return contents
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{MANIFEST} cannot be understood ({error})") from error
    except (OSError, MemoryError) as error:
        raise CheckpointError(f"{path} cannot be read ({error})") from error


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, None when it is whole."""
    try:
        _read(path)
    except CheckpointError as error:
        return str(error)
    return None


def _tensors(data: bytes) -> dict[str, Tensor]:
    from safetensors.torch import load

    try:
        return load(data)
    except Exception as error:  # the file matches its checksum, so it was written like this: any way of being wrong
        raise CheckpointError(f"{WEIGHTS} cannot be read ({error})") from error


def plain_state(data: bytes) -> dict[str, Any]:
    """`trainer.pt` without executing anything and without taking more memory than it has on disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise CheckpointError(f"{TRAINER} is compressed, which the trainer's own files are not")
            pickled = [entry for entry in archive.infolist() if entry.filename.endswith(".pkl")]
            for entry in pickled:
                _check_names(archive.read(entry))
        state = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{TRAINER} holds more than tensors and plain values, which is not executed") from error
    except Exception as error:
        raise CheckpointError(
            f"{TRAINER} cannot be read ({str(error).splitlines()[0] if str(error) else error!r})"
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{TRAINER} holds a {type(state).__name__}")
    return state


def _check_names(pickled: bytes) -> None:
    """Raises CheckpointError when something else than tensors and plain values is made.

    `torch.load(weights_only=True)` also makes a `bytearray` of any size.
    """
    for operation, argument, _ in pickletools.genops(pickled):
        known = operation.name == "GLOBAL" and (argument in _MADE or re.fullmatch(r"torch \w+Storage", str(argument)))
        if operation.name in ("GLOBAL", "STACK_GLOBAL", "INST") and not known:
            raise CheckpointError(f"{TRAINER} holds more than tensors and plain values: {str(argument)[:60]!r}")


def _delete(path: Path) -> None:
    """Take a checkpoint away, its name first: a kill in between must not leave half of one."""
    doomed = path.with_name(f".deleting-{path.name}-{os.getpid()}")
    try:
        path.rename(doomed)
    except OSError:
        doomed = path
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            doomed.unlink(missing_ok=True)
