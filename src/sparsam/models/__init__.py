"""The six models behind one contract."""

from __future__ import annotations

from typing import Any

from sparsam import checks
from sparsam.models.base import MemoryModel
from sparsam.models.sam import SAM, SAMState

MODELS: dict[str, type[MemoryModel]] = {"sam": SAM}


def build(name: str, **kwargs: Any) -> MemoryModel:
    """Make a model by name, e.g. `sparsam.build("sam", input_size=8, output_size=8)`."""
    return MODELS[checks.one_of("name", name, MODELS)](**kwargs)


__all__ = ["MODELS", "SAM", "MemoryModel", "SAMState", "build"]
