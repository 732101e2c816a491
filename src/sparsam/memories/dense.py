"""What the dense memories (NTM, DAM, DNC) share: sizes, and fields that are plain tensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sparsam import checks
from sparsam.memories.description import MOST_ROWS
from sparsam.memories.memory import Memory


class DenseMemoryModel(Memory):
    """All N words are read and written at every step."""

    def __init__(self, rows: int, width: int, heads: int) -> None:
        self.rows = checks.at_most("memory_size", checks.positive_int("memory_size", rows), "the largest", MOST_ROWS)
        self.width = checks.positive_int("word_size", width)
        self.heads = checks.at_most("num_heads", checks.positive_int("num_heads", heads), "memory_size", rows)

    def settings(self) -> dict[str, Any]:
        return {"memory_size": self.rows, "word_size": self.width, "num_heads": self.heads}

    def zeros(self, batch: int, like: Tensor, besides: tuple[str, ...] = ("memory",)) -> dict[str, Any]:
        """Zeros for every field except `besides`."""
        return {n: like.new_zeros(batch, *shape) for n, shape in self.shapes().items() if n not in besides}

    def starting_words(self, batch: int, initial: Tensor | None, like: Tensor, blank: float = 0.0) -> Tensor:
        """M_0 (B, N, W): blank, or a copy of the user's, so that changing that later does not change the state."""
        words = like.new_full((self.rows, self.width), blank) if initial is None else initial.clone()
        return words.expand(batch, -1, -1)
