"""The frozen description of a sparse memory, which goes from the models to the engines.

It mirrors the native core's `Sizes` (csrc) field by field; `kind` goes beside them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import dataclass, field
from typing import Any

from sparsam import checks, indexes
from sparsam.indexes import Index, Linear
from sparsam.memories.addressing import SIMILARITIES
from sparsam.memories.interface import Interface, sparse_interface

MOST_ROWS = 2**31 - 1  # rows are 32-bit numbers in the engines
ALLOCATIONS = ("ring", "free")


@dataclass(frozen=True)
class SparseSizes:
    """N words of width W, R heads that read K words each, and how they are found and chosen."""

    rows: int  # N
    width: int  # W
    heads: int  # R
    k: int  # K
    similarity: str = "cosine"
    delta: float = 0.005
    k_links: int = 0  # K_L, 0 for a memory without links
    link_gradients: bool = False
    allocation: str = "ring"  # which rows are written anew: the "ring" decides, or with "free" the usage
    index: Index = field(default_factory=Linear)
    erase: bool = False  # heads erase what they read before they write there
    kind: str = "sam"  # the memory's name, by which an engine finds its step; the memory writes it here

    def __post_init__(self) -> None:
        checks.at_most("memory_size", checks.positive_int("memory_size", self.rows), "the largest", MOST_ROWS)
        checks.positive_int("word_size", self.width)
        checks.at_most("num_heads", checks.positive_int("num_heads", self.heads), "memory_size", self.rows)
        checks.at_most("k", checks.positive_int("k", self.k), "memory_size", self.rows)
        checks.one_of("similarity", self.similarity, SIMILARITIES)
        object.__setattr__(self, "delta", checks.number_in("delta", self.delta, 0.0, 1.0))
        checks.boolean("link_gradients", self.link_gradients)
        checks.one_of("allocation", self.allocation, ALLOCATIONS)
        checks.boolean("erase", self.erase)

    @property
    def least_access(self) -> float:
        """The weight above which a word counts as accessed: delta, of which 0 is no weight that a softmax has.

        What is smaller than 1e-37 vanishes sooner in one way of computing e^x than in another, and must not decide
        which words are written next.
        """
        return max(self.delta, 1e-37)

    @property
    def read_size(self) -> int:
        """R·W, the width of what a step reads."""
        return self.heads * self.width

    @property
    def interface(self) -> Interface:
        return sparse_interface(self.heads, self.width, self.k_links > 0, self.allocation == "free", self.erase)

    def settings(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"memory_size": self.rows, "word_size": self.width, "num_heads": self.heads}
        shown |= {"k": self.k, "index": self.index, "similarity": self.similarity}
        if self.k_links:
            shown |= {"k_links": self.k_links, "link_gradients": self.link_gradients, "allocation": self.allocation}
        return shown | ({"erase": True} if self.erase else {})


def as_text(sizes: SparseSizes) -> str | None:
    """A description as a constant of a compiled or exported graph; None with an index that is not of `indexes`."""
    fields = {entry.name: getattr(sizes, entry.name) for entry in dataclasses.fields(sizes)}
    try:
        return json.dumps({**fields, "index": index_parts(sizes.index)})
    except KeyError:
        return None


@functools.lru_cache(maxsize=256)
def from_text(text: str) -> SparseSizes:
    fields = json.loads(text)
    return SparseSizes(**{**fields, "index": index_from(fields["index"])})


def index_parts(index: Index) -> list[Any]:
    """The name of an index and its settings."""
    name = {kind: name for name, kind in indexes.NAMES.items()}[type(index)]
    settings = {entry.name: getattr(index, entry.name) for entry in dataclasses.fields(index)}
    return [name, {n: index_parts(v) if isinstance(v, Index) else v for n, v in settings.items()}]


def index_from(parts: list[Any]) -> Index:
    name, settings = parts
    return indexes.NAMES[name](**{n: index_from(v) if isinstance(v, list) else v for n, v in settings.items()})
