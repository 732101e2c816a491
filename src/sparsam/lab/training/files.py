"""Writing files so that a reader sees the old content or the new one, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

# A folder from elsewhere can hold links to files that are none of its business, and pipes.
NO_DETOURS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LEFTOVER = re.compile(r"\.(?:config\.json|origin\.json|result\.json|log\.jsonl)-\d+|\.(?:writing|deleting)-[\d-]+")


def open_here(path: str, flags: int) -> int:
    """An opener for `open`: the file itself, never what a link leads to, and no waiting for a pipe's other end."""
    return os.open(path, flags | NO_DETOURS, 0o666)


def write_here(path: Path, data: bytes) -> None:
    """Write a page or a picture, which may lie in a folder from elsewhere."""
    with open(path, "wb", opener=open_here) as file:
        file.write(data)


def write_synced(path: Path, data: bytes) -> None:
    """Write and flush to the disk itself."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` in one move."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to tell
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


def remove_leftovers(folder: Path) -> None:
    """What a killed process was still writing or deleting in `folder`; for a holder of the run's lock only."""
    if not folder.is_dir():
        return
    for entry in list(folder.iterdir()):
        if not _LEFTOVER.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):  # it is only untidy
                entry.unlink(missing_ok=True)
