"""The GPU engine. `engine.py` is what every process loads; what runs on a GPU is loaded when a model asks for it."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache

OLDEST = (3, 4)  # version of Triton whose functions take tuples, and sizes as attributes of one argument


@lru_cache(maxsize=1)
def why_no_triton() -> str | None:
    """Why no kernel of ours can be compiled here, or None."""
    if importlib.util.find_spec("triton") is None:
        return "it needs the package triton, which is not installed"
    from triton import __version__ as version

    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        return f"it needs Triton 3.4 or later, which torch 2.8 comes with, got Triton {version}"
    return None


def interpreted() -> bool:
    """Whether Triton runs kernels on the CPU, step by step in Python (TRITON_INTERPRET=1): slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"
