"""The memory of Dense Access Memory (section 3.2): SAM with dense reads, dense writes and a discounted usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sparsam import checks
from sparsam.engines.reference.addressing import SIMILARITIES
from sparsam.engines.reference.dense import dense_read, dense_write_weights, erase_rows_and_add
from sparsam.engines.reference.usage import discounted_usage, least_used
from sparsam.memories.dense import DenseMemoryModel
from sparsam.memories.fused.cosine import dense_content_weights
from sparsam.memories.interface import Interface, sparse_interface
from sparsam.memories.memory import Step
from sparsam.state import State
from sparsam.trace import READ, WRITE, DenseAccess


@dataclass(frozen=True, eq=False, repr=False)
class DAMState(State):
    """State of DAM."""

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

    def __init__(
        self,
        rows: int,
        width: int,
        heads: int,
        similarity: str = "cosine",
        discount: float = 0.99,
        compile_step: bool = False,
    ) -> None:
        super().__init__(rows, width, heads, compile_step)
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

    def plain_step(self, vector: Tensor, state: Any) -> Step:
        request = self.interface.split(vector)
        unused = least_used(state.usage, self.heads)
        w_write = dense_write_weights(request["write_gate"], request["interpolation"], state.read_weights, unused)
        words = erase_rows_and_add(state.memory, unused, w_write, request["write_word"])
        w_read = dense_content_weights(self.similarity, request["query"], request["strength"], words)
        read = dense_read(w_read, words)
        usage = discounted_usage(state.usage, self.discount, w_write, w_read)
        fields = {"read": read, "read_weights": w_read, "usage": usage, "memory": words}
        return read, fields, [DenseAccess(WRITE, w_write), DenseAccess(READ, w_read)]
