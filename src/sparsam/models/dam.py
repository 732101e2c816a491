"""Dense Access Memory (section 3.2): SAM with dense reads, dense writes and a discounted usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sparsam import checks
from sparsam.engines.reference.access import READ, WRITE, DenseAccess
from sparsam.engines.reference.addressing import SIMILARITIES
from sparsam.engines.reference.dense import dense_content_weights, dense_read, dense_write_weights, erase_rows_and_add
from sparsam.engines.reference.interface import interface_size, split_interface
from sparsam.engines.reference.usage import discounted_usage, least_used
from sparsam.models.base import MemoryModel
from sparsam.state import State


@dataclass(frozen=True, eq=False)
class DAMState(State):
    """State of DAM."""

    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N), zero before the first read
    usage: Tensor  # U^(1) (B, N)
    memory: Tensor  # M (B, N, W)
    start: DAMState | None = None


class DAM(MemoryModel):
    """LSTM controller with a memory of N words, all of which are read and written at every step.

    The interface is SAM's. The R rows of least usage (ties to the lowest row), one for each head, are set to zero
    before they are written to. A blank memory is all zero, its usage is 0.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R access heads.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        discount: lambda of the usage U^(1).
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference".
    """

    name = "dam"
    state_class = DAMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        similarity: str = "cosine",
        discount: float = 0.99,
        batch_first: bool = False,
        engine: str = "auto",
    ) -> None:
        checks.positive_int("memory_size", memory_size)
        checks.positive_int("word_size", word_size)
        checks.at_most("num_heads", checks.positive_int("num_heads", num_heads), "memory_size", memory_size)
        checks.one_of("similarity", similarity, SIMILARITIES)
        read_size, rows = num_heads * word_size, interface_size(num_heads, word_size)
        super().__init__(input_size, output_size, hidden_size, read_size, rows, batch_first, engine)
        self.memory_size = memory_size
        self.word_size = word_size
        self.num_heads = num_heads
        self.similarity = similarity
        self.discount = checks.number_in("discount", discount, 0.0, 1.0)

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            **super().state_shapes(),
            "read": (self.num_heads, self.word_size),
            "read_weights": (self.num_heads, self.memory_size),
            "usage": (self.memory_size,),
            "memory": (self.memory_size, self.word_size),
        }

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> DAMState:
        like, shapes = self.output.weight, self.state_shapes()
        fields: dict[str, Any] = {
            name: like.new_zeros(batch_size, *shape) for name, shape in shapes.items() if name != "memory"
        }
        blank = like.new_zeros(shapes["memory"]) if initial_memory is None else initial_memory
        fields["memory"] = blank.expand(batch_size, -1, -1)
        return DAMState(**fields, start=DAMState(**fields))

    def reference_step(self, x: Tensor, state: DAMState) -> tuple[Tensor, DAMState, list[DenseAccess]]:
        """Write first, then read."""
        hidden, cell = self.control(x, state)
        ask = split_interface(self.interface(hidden), self.num_heads, self.word_size)
        unused = least_used(state.usage, self.num_heads)
        w_write = dense_write_weights(ask.write_gate, ask.interpolation, state.read_weights, unused)
        words = erase_rows_and_add(state.memory, unused, w_write, ask.write_word)
        w_read = dense_content_weights(self.similarity, ask.query, ask.strength, words)
        read = dense_read(w_read, words)
        usage = discounted_usage(state.usage, self.discount, w_write, w_read)
        y = self.answer(hidden, read)
        after = DAMState(hidden, cell, read, w_read, usage, words, state.start)
        return y, after, [DenseAccess(WRITE, w_write), DenseAccess(READ, w_read)]

    def extra_repr(self) -> str:
        return (
            f"memory_size={self.memory_size}, word_size={self.word_size}, num_heads={self.num_heads}, "
            f"similarity={self.similarity!r}, discount={self.discount}, " + super().extra_repr()
        )
