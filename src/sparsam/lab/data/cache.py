"""Prepared arrays kept on disk under a key, so that they are made once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable

import numpy as np

from sparsam.weights import cache_folder

__all__ = ["cached", "digest"]


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 over names and bytes of files, a key for what is prepared from them."""
    found = hashlib.sha256()
    for path, data in files:
        found.update(path.encode() + b"\0" + hashlib.sha256(data).digest())
    return found.hexdigest()


def cached(key: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays stored under `key`, made and stored when they are not there (or not readable).

    The file is written beside its place and moved there, so that workers that prepare at the same time never
    read half a file. A cache folder that cannot be written is no error: the arrays are made anew each time.
    """
    try:
        path = cache_folder() / f"{key}.npz"
    except OSError:
        return make()
    if path.exists():
        try:
            with np.load(path) as stored:
                return {name: stored[name] for name in stored.files}
        except Exception:
            pass  # a broken cache, in whatever way (zlib has errors of its own), is replaced below
    arrays = make()
    draft = path.with_name(f"{path.stem}.{os.getpid()}.draft.npz")
    try:
        np.savez(draft, **arrays)  # type: ignore[arg-type]
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
    return arrays
