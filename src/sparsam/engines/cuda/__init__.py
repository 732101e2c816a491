"""The GPU engine. `engine.py` is what every process loads; what runs on a GPU is loaded when a model asks for it."""

from __future__ import annotations

import importlib.util
import os

TRITON_IS_THERE = importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton runs kernels on the CPU, step by step in Python (TRITON_INTERPRET=1): slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"
