"""Faults at a chosen file operation of a training run, each in a process of its own.

A process that has imported torch once, and never trained itself, forks for every trial. In the child an audit hook
counts what is done to files of the run's folder (opening for writing, renaming, removing, making and removing folders),
and half-written files and log lines are counted beside them. At operation number n the child kills itself, or the
operation fails as it would on a full or read-only disk.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sparsam.lab.training import checkpoint, files, log
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.folder import RunFolder

PATIENCE = 600.0  # seconds until something is given up: a busy machine may take many times what an idle one does
TINY = [
    "model.name=lstm", "model.hidden_size=8", "task.name=copy", 'task.settings={"bits": 2, "max_size": 3}',
    "steps=12", "batch_size=4", "log_every=3", "eval_every=6", "eval_batches=1", "eval_batch_size=4",
    "checkpoint_every=4", "tensorboard=false", "threads=1",
]  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree")


def tiny(*settings: str) -> RunConfig:
    return RunConfig().with_settings([*TINY, *settings])


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: a signal) and what it said."""

    code: int
    out: str
    err: str


def in_child(work: Callable[[], Any], scratch: Path) -> Ended:
    """Run `work` in a fork; its exit code is that of a command (an int it returns, or SystemExit)."""
    return finish(start_child(work, scratch), scratch)


def start_child(work: Callable[[], Any], scratch: Path) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(scratch / f"{name}-{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        code = work() or 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        import traceback

        traceback.print_exc()
        code = 99 if isinstance(error, Exception) else 98
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(child: int, scratch: Path) -> Ended:
    """Wait for a child; one that takes longer is killed, with code -9."""
    deadline = time.monotonic() + PATIENCE
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    said = [_take(scratch / f"{name}-{child}") for name in ("out", "err")]
    return Ended(os.waitstatus_to_exitcode(status), *said)


def gone(child: int) -> bool:
    """Whether a child has ended; it waits to be asked how."""
    state = Path(f"/proc/{child}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def _take(path: Path) -> str:
    text = path.read_text(errors="replace") if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


class Operations:
    """Counts operations on files below `folder` and calls `fault` when one is due, with how to do half of it."""

    def __init__(self, folder: Path, due: Callable[[int], bool], fault: Callable[[], None]) -> None:
        self.count = 0
        self._folder, self._due, self._fault = str(folder), due, fault
        self._busy = False

    def install(self) -> Operations:
        sys.addaudithook(self._audit)
        write_synced, log_write = files.write_synced, log.RunLog.write

        def half_file(path: Path, data: bytes) -> None:
            if self._next():
                Path(path).write_bytes(data[: len(data) // 2])
                self._fault()
            write_synced(path, data)

        def half_line(run_log: Any, kind: str, step: int, **values: Any) -> None:
            if self._next():
                run_log._file.write(b'{"kind": "tra')
                run_log._cut = True
                try:
                    self._fault()
                except OSError:
                    return
            log_write(run_log, kind, step, **values)

        files.write_synced = checkpoint.write_synced = half_file
        log.RunLog.write = half_line  # type: ignore[method-assign]
        return self

    def _next(self) -> bool:
        self.count += 1
        return self._due(self.count)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy or not (event == "open" or event in _CHANGING):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        try:
            place = os.fspath(arguments[0])
        except TypeError:
            return
        if not str(place).startswith(self._folder):
            return
        if self._next():
            self._busy = True
            try:
                self._fault()
            finally:
                self._busy = False


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number: int) -> Callable[[], None]:
    """The operation fails with this errno."""

    def fault() -> None:
        raise OSError(number, os.strerror(number))

    return fault


NO_SPACE, READ_ONLY, BROKEN = refuse(errno.ENOSPC), refuse(errno.EROFS), refuse(errno.EIO)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load_newest(folder / "checkpoints")[1]


def same_bits(first: Path, second: Path) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def numbers(folder: Path) -> list[tuple[Any, ...]]:
    """The log without its clock readings."""
    keep = ("kind", "step", "loss", "bits_per_sequence", "level", "gradient_norm")
    return [tuple(event.get(key) for key in keep) for event in RunFolder(folder).events() if event["kind"] != "end"]


def leftovers(folder: Path) -> list[str]:
    """Names that only a process at work has."""
    found = [path for base in (folder, folder / "checkpoints") if base.is_dir() for path in base.iterdir()]
    return sorted(path.name for path in found if path.name.startswith(".") and path.name != ".lock")
