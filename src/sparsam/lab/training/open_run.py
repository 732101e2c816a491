"""Opening a run's folder: nothing in it changes until the new settings have been proved.

A start, or a resumption, goes through these steps; an error in any of them leaves everything as it was:

1. take the folder's lock;
2. read what is there and refuse what cannot go on (see resume.py);
3. build task and model, load the checkpoint, send one minibatch through;
4. only now write: the folder's first files, or the config with what has changed in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from sparsam.lab.training.checkpoint import CheckpointError
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.distributed import Processes
from sparsam.lab.training.files import remove_leftovers
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.lock import RunLock
from sparsam.lab.training.loggers import build_loggers
from sparsam.lab.training.resume import (
    check_accepted,
    compare_origin,
    compare_processes,
    load_checkpoint,
    previous_config,
    refuse_changes,
)

Saved = tuple[int, dict[str, Any], dict[str, Any]]


def _number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _tensors(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, Tensor) for part in value.values())


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number, value))


# What a checkpoint's trainer.pt has, and a retreat or a curriculum where the run has one.
STATE: dict[str, Callable[[Any], bool]] = {
    "learner": lambda value: _has(value, optimizer=lambda kept: _has(kept, state=lambda _: True)),
    "curriculum": lambda value: value is None or _has(value, level=_number, losses=_numbers, sum=_number),
    "window": lambda value: _numbers(value) and len(value) == 2,
    "seconds": _number,
    "time_steps": _number,
    "evaluation": lambda value: isinstance(value, dict) and all(map(_number, value.values())),
}
RETREAT: dict[str, Callable[[Any], bool]] = {
    "lowest": lambda value: value is None or _number(value),
    "kept": lambda value: value is None or _has(value, weights=_tensors, optimizer=lambda kept: isinstance(kept, dict)),
    "tries": lambda value: value is None or _number(value),
    "window": STATE["window"],
    "slower": _number,
}


def _has(value: Any, **parts: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(key in value and right(value[key]) for key, right in parts.items())


class OpenRun:
    """A run that has been opened: its folder, its learner and the checkpoint it goes on from (None: from the start)."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        processes: Processes,
        resume: bool = False,
        force: bool = False,
        accept: Iterable[str] = (),
    ) -> None:
        self.config, self.folder = config, folder
        self._processes, self._force = processes, force
        self._accept = check_accepted(accept)
        self._writes = processes.rank == 0
        self._lock = RunLock(folder.path)
        self._resume = processes.share(resume and folder.exists())
        self._made = self._wrote = False
        self.saved: Saved | None = None
        self.learner: Learner

    def open(self) -> None:
        """Raises, with everything as it was, when the run cannot start in some process."""
        try:
            problem = None
            try:
                if self._writes:
                    self._take()
                self._prove()
            except Exception as error:
                problem = error
            agreed = self._processes.agree(problem is None)
            if problem is not None:
                raise problem
            if not agreed:
                raise RuntimeError("another process of this run could not start; it says why")
            if self._writes:
                self._write()
        except BaseException:
            self.close(discard=True)
            raise

    def _take(self) -> None:
        if not self._resume and not self._force:
            self.folder.refuse_existing()
        if not self.folder.path.is_dir():
            self.folder.make()
            self._made = True
        self._lock.acquire()
        if not self._resume and not self._force:
            self.folder.refuse_existing()  # once more: another process may have come first

    def _prove(self) -> None:
        config, first = self.config, None
        build_loggers(config.loggers)
        if self._resume:
            refuse_changes(previous_config(self.folder, self._accept), config)
            self.saved = load_checkpoint(self.folder, self._accept)
        if self.saved is None:
            first = config.weights
        else:
            compare_processes(self.saved[2].get("processes"), self._processes.size, self._accept)
        self.learner = Learner(config, self._processes.rank, weights=first, checkpoint=self.saved and self.saved[1])
        level = config.curriculum.start if config.curriculum else None
        self.learner.probe(0, level)
        if self.saved is not None:
            try:
                load_state(self.learner, *self.saved[1:])
            except CheckpointError as error:
                raise CheckpointError(f"{self.folder.path}: {error}") from error

    def _write(self) -> None:
        folder, data = self.folder, getattr(self.learner.task, "fingerprint", None)
        changed = compare_origin(folder, data, self._accept) if self._resume else None
        remove_leftovers(folder.path)
        if not self._resume:
            self._wrote = True
            folder.clear()
            folder.create(self.config, data)
            return
        remove_leftovers(folder.checkpoints)
        if self.saved is None and folder.log_file.exists() and folder.log_file.stat().st_size:
            folder.log_file.replace(folder.path / "log-before.jsonl")
        if changed is not None:
            folder.write_origin(changed)
        folder.write_config(self.config)

    def close(self, discard: bool = False) -> None:
        """Give the lock back; with `discard` take away what this opening has made, as if it had never been."""
        if discard and self._writes and not self._resume:
            self.folder.discard(files=self._wrote)
        self._lock.release(remove=discard and not self._resume)


def load_state(learner: Learner, weights: dict[str, Any], state: dict[str, Any]) -> None:
    """The learner as the checkpoint left it; raises CheckpointError for one that does not fit, whatever is wrong."""
    missing = [key for key in STATE if key not in state]
    if missing:
        raise CheckpointError(f"the checkpoint lacks {', '.join(missing)}")
    wrong = [key for key, right in STATE.items() if not right(state[key])]
    if state.get("retreat") is not None and not _has(state["retreat"], **RETREAT):
        wrong.append("retreat")
    if wrong:
        raise CheckpointError(f"the checkpoint does not fit this run: expected other values in {', '.join(wrong)}")
    try:
        learner.load_state_dict(weights, state["learner"])
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"the checkpoint does not fit this run: {type(error).__name__}: {error}") from error
