"""Sparse Access Memory (section 3): K words read per head, R(K+1) written, whatever the size of the memory."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks, indexes
from sparsam.engines.reference import free_usage, ring
from sparsam.engines.reference.access import READ, WRITE, Access
from sparsam.engines.reference.addressing import SIMILARITIES, content_weights, gather_words, most_similar, weighted_sum
from sparsam.engines.reference.interface import Interface, interface_size, split_interface
from sparsam.engines.reference.masking import masked_words
from sparsam.engines.reference.writing import sparse_write, write_weights
from sparsam.models.base import MemoryModel
from sparsam.state import State, dense_memory


@dataclass(frozen=True, eq=False)
class SAMState(State):
    """State of SAM. `memory` is the engine's: a `DenseMemory` of the reference, a `NativeMemory` of the native one."""

    read: Tensor  # r (B, R, W)
    read_rows: Tensor  # (B, R, K) int64, -1 before the first read
    read_weights: Tensor  # w^R (B, R, K)
    memory: Any
    start: SAMState | None = None


class SAM(MemoryModel):
    """LSTM controller with a memory of N words, read and written sparsely.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads, k: R access heads, each reads the K most similar words.
        index: how those are found: "linear" (exact) or the name or object of an approximate index.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        delta: a row counts as accessed when its weights exceed this.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", "native" or "cuda".
        masked: masked content addressing (`reference.masking`; Csordas and Schmidhuber 2019). The interface
            ends with a mask for each head (R·W, a sigmoid).
        layer_norm: layer-normalised controller (`reference.layer_norm`; Franke et al. 2018), which adds the
            parameters `controller_norm`.
        bypass_dropout: dropout between controller and output layer (`reference.bypass`; Franke et al. 2018).
    """

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        *,
        _extra_interface: int = 0,
    ) -> None:
        checks.positive_int("memory_size", memory_size)
        checks.positive_int("word_size", word_size)
        checks.at_most("num_heads", checks.positive_int("num_heads", num_heads), "memory_size", memory_size)
        checks.at_most("k", checks.positive_int("k", k), "memory_size", memory_size)
        checks.one_of("similarity", similarity, SIMILARITIES)
        super().__init__(
            input_size,
            output_size,
            hidden_size,
            num_heads * word_size,
            interface_size(num_heads, word_size) + _extra_interface + (num_heads * word_size if masked else 0),
            batch_first,
            engine,
            layer_norm,
            bypass_dropout,
        )
        self.masked = bool(masked)
        self.memory_size = memory_size
        self.word_size = word_size
        self.num_heads = num_heads
        self.k = k
        self.index = indexes.resolve(index)
        self.similarity = similarity
        self.delta = checks.number_in("delta", delta, 0.0, 1.0)

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        reads = (self.num_heads, self.k)
        return {
            **super().state_shapes(),
            "read": (self.num_heads, self.word_size),
            "read_rows": reads,
            "read_weights": reads,
            "memory": (self.memory_size, self.word_size),
        }

    def controller_start(self, batch_size: int) -> dict[str, Any]:
        """h, c, r zero and no previous read: the part of a fresh state that every engine shares."""
        like = self.output.weight
        shape = (batch_size, self.num_heads, self.k)
        return {
            "hidden": like.new_zeros(batch_size, self.hidden_size),
            "cell": like.new_zeros(batch_size, self.hidden_size),
            "read": like.new_zeros(batch_size, self.num_heads, self.word_size),
            "read_rows": torch.full(shape, -1, dtype=torch.int64, device=like.device),
            "read_weights": like.new_zeros(shape),
        }

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> State:
        memory = dense_memory(batch_size, self.memory_size, self.word_size, initial_memory, self.output.weight)
        fields = self.controller_start(batch_size)
        return SAMState(**fields, memory=memory, start=SAMState(**fields, memory=memory))

    def reference_step(self, x: Tensor, state: Any) -> tuple[Tensor, Any, list[Access]]:
        """Write first, then read: steps 1 to 7 of SAM."""
        hidden, cell = self.control(x, state)
        ask = split_interface(self.interface(hidden), self.num_heads, self.word_size)
        memory = state.memory
        unused, usage = self.reference_unused(ask, state)
        room = None if usage is None else free_usage.room(usage, unused)
        write_rows, w_write = write_weights(
            ask.write_gate, ask.interpolation, state.read_rows, state.read_weights, unused, room
        )
        words = sparse_write(memory.words, unused, write_rows, w_write, ask.write_word)
        read_rows, w_read, read, more = self.reference_read(ask, words, state, write_rows, w_write)
        accessed = self.reference_accessed(memory, usage, write_rows, w_write, read_rows, w_read)
        y = self.answer(hidden, read)
        memory = dataclasses.replace(memory, words=words, **accessed)
        after = dataclasses.replace(
            state, hidden=hidden, cell=cell, read=read, read_rows=read_rows, read_weights=w_read, memory=memory, **more
        )
        return y, after, [Access(WRITE, 0, write_rows, w_write), Access(READ, 0, read_rows, w_read)]

    def reference_unused(self, ask: Interface, state: Any) -> tuple[Tensor, Tensor | None]:
        """Step 2: the rows u (B, R) to write anew, and the usage (B, N) that limits how much; None for no limit."""
        return ring.least_recently_accessed(state.memory.last_access, self.num_heads), None

    def reference_accessed(
        self,
        memory: Any,
        usage: Tensor | None,
        write_rows: Tensor,
        w_write: Tensor,
        read_rows: Tensor,
        w_read: Tensor,
    ) -> dict[str, Tensor]:
        """Step 6: the fields of the memory that say which rows come next, after this step's accesses."""
        used = ring.summed_weights(write_rows, w_write, self.memory_size) + ring.summed_weights(
            read_rows, w_read, self.memory_size
        )
        last_access, clock = ring.touch(memory.last_access, memory.clock, used > self.delta)
        return {"last_access": last_access, "clock": clock}

    def reference_read(
        self, ask: Interface, words: Tensor, state: Any, write_rows: Tensor, write_weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """Step 5: rows and weights (B, R, K), the words read (B, R, W), and fields that a model adds to the state."""
        rows, weights = self.reference_content(ask, words)
        return rows, weights, weighted_sum(weights, gather_words(words, rows)), {}

    def reference_content(self, ask: Interface, words: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and weights (B, R, K) of the most similar words."""
        if not self.masked:
            rows = self.select_rows(ask.query, words)
            return rows, content_weights(self.similarity, ask.query, ask.strength, gather_words(words, rows))
        masks = ask.rest[:, -self.read_size :].unflatten(-1, (self.num_heads, self.word_size))
        mask = torch.sigmoid(masks)
        query = ask.query * mask
        rows = self.select_rows(query, masked_words(words, mask))
        chosen = masked_words(gather_words(words, rows), mask)
        return rows, content_weights(self.similarity, query, ask.strength, chosen)

    def select_rows(self, query: Tensor, words: Tensor) -> Tensor:
        """The K rows per head that a step reads: exact search, constants for the gradient."""
        return most_similar(self.similarity, query, words, self.k)

    def extra_repr(self) -> str:
        return (
            f"memory_size={self.memory_size}, word_size={self.word_size}, num_heads={self.num_heads}, k={self.k}, "
            f"index={self.index}, similarity={self.similarity!r}, " + super().extra_repr()
        )
