"""What the dense memories (NTM, DAM, DNC) share: sizes, fields that are plain tensors, dense reads and writes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sparsam import checks
from sparsam.memories.description import MOST_ROWS
from sparsam.memories.memory import Memory, Step


class DenseMemoryModel(Memory):
    """All N words are read and written at every step.

    With `compile_step` the step is compiled by `torch.compile` on a CPU; on a GPU it never is (docs/notebook/gpu.md).
    """

    def __init__(self, rows: int, width: int, heads: int, compile_step: bool = False) -> None:
        self.rows = checks.at_most("memory_size", checks.positive_int("memory_size", rows), "the largest", MOST_ROWS)
        self.width = checks.positive_int("word_size", width)
        self.heads = checks.at_most("num_heads", checks.positive_int("num_heads", heads), "memory_size", rows)
        self.compile_step = checks.boolean("compile_step", compile_step)

    def step(self, vector: Tensor, state: Any) -> Step:
        """`plain_step`, compiled where that was asked for."""
        if self.compile_step and vector.device.type == "cpu":
            return compiled_step(type(self))(self, vector, state)
        if self.compile_step:
            warnings.warn(
                f"compile_step: expected a model on a CPU, got {vector.device}; its step runs as it is", stacklevel=2
            )
        return self.plain_step(vector, state)

    def plain_step(self, vector: Tensor, state: Any) -> Step:
        """One step, not compiled: the write first, then the read. A memory that is never compiled has `step` alone."""
        raise NotImplementedError

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


@functools.cache
def compiled_step(kind: type[DenseMemoryModel]) -> Callable[[DenseMemoryModel, Tensor, Any], Step]:
    """`plain_step` compiled, for all models of a kind: kept here, so that a model can still be copied and pickled."""
    return torch.compile(kind.plain_step)


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
