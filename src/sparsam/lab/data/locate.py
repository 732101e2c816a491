"""Where data sets are looked for, and what is said when they are not there.

A *root* is a folder that holds the downloads, as they came or unpacked: the one that the caller names; else
`$SPARSAM_DATA`; else the folder that the system keeps a user's data in (`$XDG_DATA_HOME/sparsam` or
`~/.local/share/sparsam`, on a Mac `~/Library/Application Support/sparsam`, on Windows
`%LOCALAPPDATA%\\sparsam`), and `~/.sparsam/data`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["DataError", "MissingData", "find", "roots"]


class DataError(ValueError):
    """Data that is there and is not what it should be."""


class MissingData(FileNotFoundError):
    """Data that is not there; the message says what to download and where to put it."""


def roots(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders to search, first one first. A root that is named is the only one."""
    if root is not None:
        return [Path(root).expanduser()]
    if os.environ.get("SPARSAM_DATA"):
        return [Path(os.environ["SPARSAM_DATA"]).expanduser()]
    return [_user_data(), Path("~/.sparsam/data").expanduser()]


def _user_data() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/sparsam").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "sparsam"
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "sparsam"


def find(root: str | os.PathLike[str] | None, names: Iterable[str], missing: str) -> Path:
    """The first of `names` (relative to a root, '' for the root itself is allowed) that exists in a root.

    Raises:
        MissingData: with `missing` (what to download) and the folders that were searched.
    """
    names = list(names)
    searched = roots(root)
    for folder in searched:
        for name in names:
            candidate = folder / name if name else folder
            if candidate.exists():
                return candidate
    places = "\n".join(f"  {folder}" for folder in searched)
    raise MissingData(
        f"{missing}\nSearched:\n{places}\nPut it into one of these, or name a folder with --root "
        "(root= in Python) or $SPARSAM_DATA."
    )
