"""The memory of Dense Access Memory (section 3.2): SAM with dense reads, dense writes and a discounted usage."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import checks
from sparsam.memories.addressing import SIMILARITIES, dense_content_weights
from sparsam.memories.interface import Interface, sparse_interface
from sparsam.memories.memory import DenseMemoryModel, Step, dense_read
from sparsam.state import State
from sparsam.trace import READ, WRITE, DenseAccess


class DAMState(State):
    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N), zero before the first read
    usage: Tensor  # U^(1) (B, N)
    memory: Tensor  # M (B, N, W)
    start: DAMState | None = None


class DAMMemory(DenseMemoryModel):
    """The interface is SAM's. The R rows of least usage (ties to the lowest row), one for each head, are set to zero
    before they are written to. A blank memory is all zero, its usage is 0.
    """

    name = "dam"
    state_class = DAMState

    def __init__(self, rows: int, width: int, heads: int, similarity: str = "cosine", discount: float = 0.99) -> None:
        super().__init__(rows, width, heads)
        self.similarity = checks.one_of("similarity", similarity, SIMILARITIES)
        self.discount = checks.number_in("discount", discount, 0.0, 1.0)

    @property
    def interface(self) -> Interface:
        return sparse_interface(self.heads, self.width)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "read": (self.heads, self.width),
            "read_weights": (self.heads, self.rows),
            "usage": (self.rows,),
            "memory": (self.rows, self.width),
        }

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "similarity": self.similarity, "discount": self.discount}

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        return {**self.zeros(batch, like), "memory": self.starting_words(batch, initial, like)}

    def step(self, vector: Tensor, state: Any) -> Step:
        request = self.interface.split(vector)
        unused = least_used(state.usage, self.heads)
        w_write = dense_write_weights(request["write_gate"], request["interpolation"], state.read_weights, unused)
        words = erase_rows_and_add(state.memory, unused, w_write, request["write_word"])
        w_read = dense_content_weights(self.similarity, request["query"], request["strength"], words)
        read = dense_read(w_read, words)
        usage = discounted_usage(state.usage, self.discount, w_write, w_read)
        fields = {"read": read, "read_weights": w_read, "usage": usage, "memory": words}
        return read, fields, [DenseAccess(WRITE, w_write), DenseAccess(READ, w_read)]


def dense_write_weights(alpha: Tensor, gamma: Tensor, read_weights: Tensor, unused: Tensor) -> Tensor:
    """eq. lru_write_weights, densely: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]), (B, R, N)."""
    previous = (alpha * gamma)[..., None] * read_weights
    return previous.scatter_add(-1, unused[..., None], (alpha * (1 - gamma))[..., None])


def erase_rows_and_add(words: Tensor, unused: Tensor, weights: Tensor, write_words: Tensor) -> Tensor:
    """eq. sparse_write_suppl with dense weights: rows u (B, R) set to zero, then M += sum_h w^W_h a_h^T."""
    kept = words * words.new_ones(words.shape[:2]).scatter(1, unused, 0.0)[..., None]
    return torch.baddbmm(kept, weights.mT, write_words)


def discounted_usage(usage: Tensor, discount: float, write_weights: Tensor, read_weights: Tensor) -> Tensor:
    """U_T(i) = sum_t lambda^(T-t) (w^W_t(i) + w^R_t(i)), summed over heads: U <- lambda U + sum_h (w^W_h + w^R_h).

    Usage (B, N), weights (B, R, N). A constant for the gradient, as it only selects rows.
    """
    return discount * usage.detach() + (write_weights.detach() + read_weights.detach()).sum(dim=1)


def least_used(usage: Tensor, count: int) -> Tensor:
    """I^U_t: the `count` rows of least usage (B, count), least first; ties go to the lowest row.

    `argmin` names the first of equal minima, so `count` passes over N do, where a stable sort would cost more.
    """
    left, rows = usage, []
    for _ in range(count):
        rows.append(left.argmin(dim=-1, keepdim=True))
        left = left.scatter(1, rows[-1], torch.inf)
    return torch.cat(rows, dim=-1)
