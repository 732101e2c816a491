"""A part of a memory that can be exchanged: how keys are compared, which words are written anew, what freeing does.

A memory is given its parts when it is made; it asks nobody which of them it has. A further variant of a step is a class
beside those in `addressing.py`, `allocation.py` and `freeing.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sparsam.memories.interface import Field


class Part:
    """Base of all parts; a part has no settings and holds nothing of an episode."""

    options: ClassVar[
        dict[str, Any]
    ] = {}  # arguments of a model's constructor that ask for it, where it is not the default

    def fields(self, heads: int, width: int) -> tuple[Field, ...]:
        """What it adds to the interface vector, after the memory's own fields."""
        return ()
