"""What the dense memories (NTM, DAM, DNC) share: sizes, fields that are plain tensors, dense reads and writes."""

from __future__ import annotations

from typing import Any

import torch
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
