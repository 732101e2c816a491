"""A lock on a run's folder: two processes that write one run would delete each other's files.

The operating system holds the lock (flock) for as long as the process lives, so a crash or a kill releases it. The file
says who holds it, for the message that the second process gives.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
import warnings
from pathlib import Path

from sparsam.lab.training.files import NO_DETOURS

NAME = ".lock"


class Locked(RuntimeError):
    """Another process is at work in the folder."""


class RunLock:
    """`acquire` and `release`, or a with-statement. The folder must exist."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises Locked, naming the process that holds it."""
        while self._descriptor is None:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_DETOURS, 0o644)
            try:
                _lock(descriptor)
            except OSError as error:
                holder = _holder(descriptor)
                os.close(descriptor)
                if error.errno in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK):
                    raise Locked(f"{self.path.parent} is in use by {holder}; wait for it, or end it") from error
                warnings.warn(
                    f"{self.path.parent} cannot be locked ({error}); see that nobody else uses it", stacklevel=2
                )
                return
            if _same_file(descriptor, self.path):
                self._descriptor = descriptor
            else:  # whoever held it took the file away between our opening and locking it
                os.close(descriptor)
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        text = json.dumps(about | {"command": [Path(sys.argv[0]).name, *sys.argv[1:]]}).encode()
        try:
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, text)
        except OSError:
            pass  # a full disk: the lock holds all the same, only its holder cannot be named

    def release(self, remove: bool = False) -> None:
        """With `remove` the file goes as well, for a folder that is to be left as it was."""
        if self._descriptor is None:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def _lock(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    try:
        about = json.loads(os.read(descriptor, 10_000))
        return f"process {about['pid']} on {about['host']} since {about['since']} ({' '.join(about['command'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
