"""How the K most similar words are found: exact search, or an approximate index with its settings.

These classes hold settings only. The structures live in the native core (csrc/), which keeps them in step with every
write; they are never differentiated, and what they propose is always scored exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsam import checks


@dataclass(frozen=True)
class Index:
    """Base of all index settings."""


@dataclass(frozen=True)
class Linear(Index):
    """Exact search over every word that differs from a blank one."""


NAMES: dict[str, type[Index]] = {"linear": Linear}


def resolve(index: Any) -> Index:
    """An index from its name, or the settings object as it is."""
    if isinstance(index, Index):
        return index
    if not isinstance(index, str):
        raise TypeError(f"index: expected a name or an Index, got {type(index).__name__}")
    return NAMES[checks.one_of("index", index, NAMES)]()
