"""What a memory is to the models and the engines: an interface, a state, and one step in plain PyTorch.

A memory has no parameters and holds nothing of an episode. A further one is a file beside `sam.py`: a subclass of
`Memory` that declares its interface and gives `fresh` and `step` (docs/extending.md).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks
from sparsam.memories.description import MOST_ROWS, SparseSizes
from sparsam.memories.interface import Interface
from sparsam.state import State
from sparsam.trace import Access, DenseAccess

Step = tuple[Tensor, dict[str, Any], Sequence[Access | DenseAccess]]


class Memory(ABC):
    """N words of width W, read by R heads (`rows`, `width`, `heads`)."""

    name: ClassVar[str]
    state_class: ClassVar[type[State]]
    rows: int
    width: int
    heads: int
    sizes: SparseSizes | None = None  # the description of a sparse memory

    @property
    def read_size(self) -> int:
        """R·W, the width of what a step reads."""
        return self.heads * self.width

    @property
    @abstractmethod
    def interface(self) -> Interface:
        """The fields of the interface vector."""

    @abstractmethod
    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        """The memory's fields of a state that nothing has touched; `initial` (N, W) or (B, N, W), None for blank."""

    @abstractmethod
    def step(self, vector: Tensor, state: Any) -> Step:
        """One step for an interface vector (B, F) before its activation, from a state of `state_class`.

        Returns the words read (B, R, W), the fields of the state that changed, and what was accessed.
        """

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of the memory's fields that has one, without its batch dimension."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What a `repr` shows."""

    def fewest(self) -> tuple[str, int]:
        """The rows that a step may read and write: a formula of the model's arguments, and the number."""
        return "1", 1

    def warn_if_small(self) -> None:
        """Say at construction that a step has to overwrite what the one before it has read."""
        formula, rows = self.fewest()
        if self.rows < rows:
            warnings.warn(
                f"memory_size={self.rows} is less than {formula} = {rows}, the rows that one step may read and write, "
                "so a step overwrites rows that the step before it has read",
                stacklevel=checks.callers_level(),
            )

    def options(self) -> dict[str, Any]:
        """Options of later work that are in use; not every engine has them."""
        return {}


# --- What the dense memories (NTM, DAM, DNC) share ---


class DenseMemoryModel(Memory):
    """A memory of which all N words are read and written at every step; its fields are plain tensors."""

    def __init__(self, rows: int, width: int, heads: int) -> None:
        self.rows = checks.at_most("memory_size", checks.positive_int("memory_size", rows), "the largest", MOST_ROWS)
        self.width = checks.positive_int("word_size", width)
        self.heads = checks.at_most("num_heads", checks.positive_int("num_heads", heads), "memory_size", rows)

    def settings(self) -> dict[str, Any]:
        return {"memory_size": self.rows, "word_size": self.width, "num_heads": self.heads}

    def fewest(self) -> tuple[str, int]:
        return "2 * num_heads", 2 * self.heads

    def zeros(self, batch: int, like: Tensor, besides: tuple[str, ...] = ("memory",)) -> dict[str, Any]:
        """Zeros for every field except `besides`."""
        return {n: like.new_zeros(batch, *shape) for n, shape in self.shapes().items() if n not in besides}

    def starting_words(self, batch: int, initial: Tensor | None, like: Tensor, blank: float = 0.0) -> Tensor:
        """M_0 (B, N, W): blank, or a copy of the user's, so that changing that later does not change the state."""
        words = like.new_full((self.rows, self.width), blank) if initial is None else initial.clone()
        return words.expand(batch, -1, -1)


def dense_read(weights: Tensor, words: Tensor) -> Tensor:
    """eq. soft_read: r = sum_i w(i) M(i), (B, R, W) from weights (B, R, N)."""
    return weights @ words


def erase_and_add(words: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """eq. soft_write: M(i) <- M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h, e and a (B, R, W), w (B, R, N).

    With several heads all erase before any adds, so their order makes no difference (Graves 2014, section 3.2).
    """
    one = words.new_ones(())
    for w, e in zip(weights.unbind(1), erase.unbind(1)):  # several times faster backward than `prod` over heads
        words = words * torch.baddbmm(one, w[:, :, None], e[:, None, :], alpha=-1)
    return torch.baddbmm(words, weights.mT, add)
