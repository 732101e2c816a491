"""The memory of Sparse Access Memory (section 3): K words read per head, R(K+1) written, whatever its size."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import content_weights, gather_words, most_similar, weighted_sum
from sparsam.engines.reference.writing import sparse_write, write_weights
from sparsam.memories.addressing import Addressing
from sparsam.memories.allocation import ALLOCATIONS, Touched
from sparsam.memories.description import SparseSizes, as_text
from sparsam.memories.interface import Interface
from sparsam.memories.memory import Memory, Step
from sparsam.state import DenseMemory, State, dense_memory
from sparsam.trace import READ, WRITE, Access


@dataclass(frozen=True, eq=False, repr=False)
class SparseState(State):
    """What SAM, the SDNC and the layer carry from step to step.

    `memory` is the engine's: a `DenseMemory` of the reference, a `NativeMemory` of the native one.
    """

    read: Tensor  # r (B, R, W)
    read_rows: Tensor  # (B, R, K) int64, -1 before the first read
    read_weights: Tensor  # w^R (B, R, K)
    memory: Any


@dataclass(frozen=True, eq=False, repr=False)
class SAMState(SparseState):
    """State of SAM."""

    start: SAMState | None = None


class SAMMemory(Memory):
    """N words, read and written sparsely: steps 2 to 6 of SAM."""

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState
    sizes: SparseSizes

    def __init__(self, sizes: SparseSizes, addressing: Addressing | None = None) -> None:
        self.sizes, self.text = sizes, as_text(sizes)
        self.rows, self.width, self.heads = sizes.rows, sizes.width, sizes.heads
        self.addressing = Addressing() if addressing is None else addressing
        self.allocation = ALLOCATIONS[sizes.allocation]

    def with_sizes(self, sizes: SparseSizes) -> SAMMemory:
        """A memory of another description with the same parts."""
        return type(self)(sizes, self.addressing)

    @property
    def interface(self) -> Interface:
        """The description's fields, which every engine knows, then those of parts that the reference alone has."""
        return Interface((*self.sizes.interface.fields, *self.addressing.fields(self.heads, self.width)))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        reads = (self.heads, self.sizes.k)
        return {
            "read": (self.heads, self.width),
            "read_rows": reads,
            "read_weights": reads,
            "memory": (self.rows, self.width),
        }

    def settings(self) -> dict[str, Any]:
        return self.sizes.settings()

    def options(self) -> dict[str, Any]:
        return dict(self.addressing.options)

    def no_read(self, batch: int, like: Tensor) -> dict[str, Tensor]:
        """r = 0 and no previous read: the part of a fresh state that is the same in every engine."""
        shape = (batch, self.heads, self.sizes.k)
        return {
            "read": like.new_zeros(batch, self.heads, self.width),
            "read_rows": torch.full(shape, -1, dtype=torch.int64, device=like.device),
            "read_weights": like.new_zeros(shape),
        }

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        memory = self.allocation.fresh(dense_memory(batch, self.rows, self.width, initial, like))
        return {**self.no_read(batch, like), "memory": memory}

    def step(self, vector: Tensor, state: Any) -> Step:
        """Write first, then read."""
        request = self.interface.split(vector)
        memory: DenseMemory = state.memory
        unused, room, usage = self.allocation.unused(request, state)
        write_rows, w_write = write_weights(
            request["write_gate"], request["interpolation"], state.read_rows, state.read_weights, unused, room
        )
        words = sparse_write(memory.words, unused, write_rows, w_write, request["write_word"])
        read_rows, w_read, read, more = self.read(request, words, state, write_rows, w_write)
        touched = Touched(write_rows, w_write, read_rows, w_read)
        accessed = self.allocation.accessed(memory, usage, touched, self.sizes.delta)
        memory = dataclasses.replace(memory, words=words, **accessed)
        fields = {"read": read, "read_rows": read_rows, "read_weights": w_read, "memory": memory, **more}
        return read, fields, [Access(WRITE, 0, write_rows, w_write), Access(READ, 0, read_rows, w_read)]

    def read(
        self, request: dict[str, Tensor], words: Tensor, state: Any, write_rows: Tensor, w_write: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """Step 5: rows and weights (B, R, K), the words read (B, R, W), and fields that a memory adds to the state."""
        rows, weights = self.content(request, words)
        return rows, weights, weighted_sum(weights, gather_words(words, rows)), {}

    def content(self, request: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and weights (B, R, K) of the most similar words."""
        kind, part = self.sizes.similarity, self.addressing
        query = part.key(request["query"], request)
        rows = self.select_rows(query, part.words(words, request))
        return rows, content_weights(kind, query, request["strength"], part.words(gather_words(words, rows), request))

    def select_rows(self, query: Tensor, words: Tensor) -> Tensor:
        """The K rows per head that a step reads: exact search, constants for the gradient."""
        return most_similar(self.sizes.similarity, query, words, self.sizes.k)
