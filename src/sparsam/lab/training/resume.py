"""What must be as it was when a run goes on: settings, versions, data, the number of processes.

Settings that the weights or the counting of minibatches depend on cannot change. What could make the results differ
without anybody having asked for it (versions, data, damage) is refused until it is accepted by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from typing import Any

from sparsam import checks
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import RunConfig, by_path
from sparsam.lab.training.folder import RunFolder, newest_config, versions

ACCEPTABLE = {
    "damage": "take an older checkpoint if the newest is damaged, or start over if none is whole",
    "versions": "continue with other versions of sparsam, torch, numpy or Python",
    "data": "continue with other data",
    "processes": "continue with another number of processes",
}
FIXED = ("seed", "batch_size", "model", "task", "weights", "optimizer.name")
# Parts of these that weights do not depend on: the engine, where the data is and where minibatches are made.
MAY_CHANGE = (
    "model.engine",
    *(f"task.{part}.{key}" for part in ("settings", "training") for key in ("root", "device")),
)


class Refused(ValueError):
    """A run cannot go on like this."""


def check_accepted(accept: Iterable[str]) -> frozenset[str]:
    for name in accept:
        checks.one_of("accept", name, ACCEPTABLE)
    return frozenset(accept)


def previous_config(folder: RunFolder, accept: Collection[str]) -> RunConfig:
    """The config of a run that is to go on; a damaged one is taken from the newest checkpoint if that is accepted."""
    try:
        return folder.config()
    except (ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        if "damage" in accept:
            warnings.warn(f"{error}; taking the config that the newest checkpoint carries", stacklevel=2)
            return newest_config(folder)
        raise Refused(
            f"{error}; the checkpoints carry the config as well: --accept damage takes it from there"
        ) from error


def refuse_changes(before: RunConfig, after: RunConfig) -> None:
    """Raises Refused naming the settings that cannot change while a run goes on."""
    old, new = by_path(before.to_dict()), by_path(after.to_dict())
    changed = [
        path
        for path in dict.fromkeys((*old, *new))
        if old.get(path) != new.get(path) and path not in MAY_CHANGE and _is_fixed(path)
    ]
    if (before.curriculum is None) != (after.curriculum is None):
        changed.append("curriculum")
    if changed:
        told = ", ".join(f"{path} ({old.get(path)!r} to {new.get(path)!r})" for path in changed[:6])
        raise Refused(f"a resumed run cannot change {told}; start a new run instead (--weights starts from this one)")


def _is_fixed(path: str) -> bool:
    return any(path == fixed or path.startswith(fixed + ".") for fixed in FIXED)


def compare_origin(folder: RunFolder, data: str | None, accept: Collection[str]) -> dict[str, Any] | None:
    """Refuse other versions or data than the run had, unless accepted.

    Returns the origin to write when something that was accepted has changed, else None.
    """
    origin = folder.origin()
    if origin is None:
        return None
    resumed: list[Any] = origin["resumed"] if isinstance(origin.get("resumed"), list) else []
    last = resumed[-1] if resumed and isinstance(resumed[-1], dict) else origin
    now, before = versions(), last.get("versions")
    changed = {}
    if isinstance(before, dict):
        changed = {key: (before[key], now[key]) for key in now if key in before and _differ(key, before[key], now[key])}
    if changed:
        told = ", ".join(f"{key} {' '.join(str(old)[:40].split())} (here {new})" for key, (old, new) in changed.items())
        _accept("versions", f"the run was made with {told}, and may not end on the same bits", accept)
    other_data = data is not None and last.get("data") not in (None, data)
    if other_data:
        _accept("data", "the data is not the one that the run was made with", accept)
    if not changed and not other_data:
        return None
    return origin | {"resumed": [*resumed, {"versions": now, "data": data}]}


def _differ(key: str, before: Any, now: str) -> bool:
    if key == "python":  # its last number changes nothing that is computed
        return str(before).split(".")[:2] != now.split(".")[:2]
    return before != now


def compare_processes(before: Any, now: int, accept: Collection[str]) -> None:
    if isinstance(before, int) and 0 < before < 2**31 and before != now:
        _accept(
            "processes", f"the run had {before} processes that take every step together, now there are {now}", accept
        )


def _accept(name: str, what: str, accept: Collection[str]) -> None:
    if name not in accept:
        raise Refused(f"{what}; --accept {name} continues anyway")
    warnings.warn(f"{what}; accepted", stacklevel=3)


def load_checkpoint(folder: RunFolder, accept: Collection[str]) -> tuple[int, dict, dict] | None:
    """The newest whole checkpoint; None, said aloud, for a run that has to begin again."""
    try:
        return checkpoint.load_newest(folder.checkpoints)
    except checkpoint.NoCheckpoint:
        warnings.warn(f"{folder.path} has no checkpoint yet: the run starts again at minibatch 0", stacklevel=2)
    except checkpoint.CheckpointError as error:
        if "damage" not in accept:
            raise checkpoint.CheckpointError(f"{error}; --accept damage starts again at minibatch 0") from error
        warnings.warn(
            f"{error}; the run starts again at minibatch 0; the log so far is kept as log-before.jsonl", stacklevel=2
        )
    return None
