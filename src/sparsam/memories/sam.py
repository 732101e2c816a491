"""The memory of Sparse Access Memory (section 3): K words read per head, R(K+1) written, whatever its size."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam.memories.addressing import Addressing, content_weights, gather_words, most_similar, weighted_sum
from sparsam.memories.description import SparseSizes, as_text
from sparsam.memories.interface import Interface
from sparsam.memories.memory import Memory, Step
from sparsam.state import DenseMemory, State, Store, dense_memory
from sparsam.trace import READ, WRITE, Access


class SparseState(State):
    """What SAM, the SDNC and the layer carry from step to step.

    `memory` is the engine's: a `DenseMemory` of the reference, a `NativeMemory` of the native one.
    """

    read: Tensor  # r (B, R, W)
    read_rows: Tensor  # (B, R, K) int64, -1 before the first read
    read_weights: Tensor  # w^R (B, R, K)
    memory: Store


class SAMState(SparseState):
    start: SAMState | None = None


class SAMMemory(Memory):
    """N words, read and written sparsely: steps 2 to 6 of SAM."""

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState
    sizes: SparseSizes

    def __init__(self, sizes: SparseSizes, addressing: Addressing | None = None) -> None:
        sizes = dataclasses.replace(sizes, kind=self.name)
        self.sizes, self.text = sizes, as_text(sizes)
        self.rows, self.width, self.heads = sizes.rows, sizes.width, sizes.heads
        self.addressing = Addressing() if addressing is None else addressing

    def with_sizes(self, sizes: SparseSizes) -> SAMMemory:
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

    def fewest(self) -> tuple[str, int]:
        return "num_heads * (k + 1)", self.heads * (self.sizes.k + 1)

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
        return {**self.no_read(batch, like), "memory": dense_memory(batch, self.rows, self.width, initial, like)}

    def step(self, vector: Tensor, state: Any) -> Step:
        """Write first, then read."""
        request = self.interface.split(vector)
        memory: DenseMemory = state.memory
        unused, room, usage = self.unused(request, state)
        write_rows, w_write = self.write(request, state, unused, room)
        words = memory.words
        if self.sizes.erase:
            words = erased(words, request["erase"], write_rows[..., :-1], w_write[..., :-1])
        words = sparse_write(words, unused, write_rows, w_write, request["write_word"])
        read_rows, w_read, read, more = self.read(request, words, state, write_rows, w_write)
        written, found = Access(WRITE, 0, write_rows, w_write), Access(READ, 0, read_rows, w_read)
        memory = dataclasses.replace(memory, words=words, **self.accessed(memory, usage, written, found))
        fields = {"read": read, "read_rows": read_rows, "read_weights": w_read, "memory": memory, **more}
        return read, fields, [written, found]

    def unused(self, request: dict[str, Tensor], state: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Step 2: the rows u (B, R) to write anew, the room (B, R) that each has, and the usage (B, N) behind it.

        Room and usage are None where nothing limits how much is written.
        """
        return least_recently_accessed(state.memory.last_access, self.heads), None, None

    def write(
        self, request: dict[str, Tensor], state: Any, unused: Tensor, room: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Step 3: rows and weights (B, R, K+1) to write to, the unused row last; row -1 for none."""
        alpha, gamma = request["write_gate"], request["interpolation"]
        return write_weights(alpha, gamma, state.read_rows, state.read_weights, unused, room)

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
        """The K rows per head that a step reads, constants for the gradient: of the words that the index proposes."""
        among = self.sizes.index.candidates(query.detach(), words.detach())
        return most_similar(self.sizes.similarity, query, words, self.sizes.k, among)

    def accessed(self, memory: DenseMemory, usage: Tensor | None, written: Access, found: Access) -> dict[str, Any]:
        """Step 6: the fields of the memory that say which rows come next, after this step's accesses."""
        used = summed_weights(written.rows, written.weights, self.rows)
        used = used + summed_weights(found.rows, found.weights, self.rows)
        last_access, clock = touch(memory.last_access, memory.clock, used > self.sizes.least_access)
        return {"last_access": last_access, "clock": clock}


# --- The sparse write: to what was read before, and to the least recently accessed words ---


def write_weights(
    alpha: Tensor, gamma: Tensor, rows: Tensor, weights: Tensor, unused: Tensor, room: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """eq. lru_write_weights: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]).

    Gates (B, R), rows and weights (B, R, K) of w^R_{t-1} with row -1 for none, unused rows u (B, R); returns rows and
    weights (B, R, K+1), the unused row last. Unused rows with limited room (B, R) take (1 - gamma_h) room_h.
    """
    previous = (alpha * gamma)[..., None] * weights * (rows >= 0)
    fresh = alpha * (1 - gamma) if room is None else alpha * (1 - gamma) * room
    return torch.cat([rows, unused[..., None]], dim=-1), torch.cat([previous, fresh[..., None]], dim=-1)


def sparse_write(words: Tensor, unused: Tensor, rows: Tensor, weights: Tensor, write_words: Tensor) -> Tensor:
    """eq. sparse_write_suppl: M <- M - E + A with E the words at u (B, R) and A = sum_h w^W_h a_h^T, a (B, R, W)."""
    batch, size, width = words.shape
    keep = words.new_ones(batch, size).scatter(1, unused, 0.0)
    added = (weights[..., None] * write_words[:, :, None]).reshape(batch, -1, width)
    at = rows.clamp_min(0).reshape(batch, -1, 1).expand(-1, -1, width)  # a weight of 0 goes with row -1
    return (words * keep[..., None]).scatter_add(1, at, added)


def erased(words: Tensor, gates: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """M(i) <- M(i) prod_h (1 - e_h w^W_h(i)) at the rows that the heads read before, as the NTM and the DNC erase.

    Words (B, N, W), erase gates e (B, R), previous reads (B, R, K) with row -1 for none, and the weights (B, R, K) with
    which those rows are written next: alpha_h gamma_h w^R_{t-1,h}. No part of the paper; with e_h = 0 it changes
    nothing, and a head that reads one word (w^R = 1) with all gates open replaces it by its write word. It comes before
    the rows of the ring are set to zero, whose words are gone either way.
    """
    kept = 1 - gates[..., None] * weights * (rows >= 0)  # 1 goes with row -1
    keep = words.new_ones(words.shape[:2]).scatter_reduce(1, rows.clamp_min(0).flatten(1), kept.flatten(1), "prod")
    return words * keep[..., None]


# --- U^(2), the paper's ring, kept here as the step of each row's last access ---
#
# The ring orders rows by when they were last accessed and, within a step, by row; so sorting by (last access, row)
# gives its order without any links. `csrc/memory/ring.h` is the linked list that does the same in constant time.


def least_recently_accessed(last_access: Tensor, count: int) -> Tensor:
    """The first `count` rows of the ring, (B, count): minimal U^(2), ties to the lowest row."""
    return last_access.sort(dim=-1, stable=True).indices[:, :count]


def summed_weights(rows: Tensor, weights: Tensor, size: int) -> Tensor:
    """Weights of sparse accesses (B, ..., K) summed per row into (B, N); rows of -1 count for nothing."""
    flat = weights.detach().reshape(weights.shape[0], -1)
    at = rows.reshape(rows.shape[0], -1)
    dense = flat.new_zeros(flat.shape[0], size)
    return dense.scatter_add(1, at.clamp_min(0), flat * (at >= 0))


def touch(last_access: Tensor, clock: Tensor, accessed: Tensor) -> tuple[Tensor, Tensor]:
    """Move the rows where `accessed` (B, N) holds to the back of the ring; returns the ring and the clock after it."""
    clock = clock + 1
    return torch.where(accessed, clock[:, None], last_access), clock
