"""The memory of a state on the GPU: the rows that can have been touched, and the ring.

Rows of a blank memory are first touched from below. A step writes the R lowest that were never accessed, and reads of
those never written, which are all alike, the K lowest (ties go to the lowest row), which the next step may write to. So
a blank memory after S steps is still blank from row S (R + K) + 2 K + R on, and only the rows before are there: neither
bytes nor time depend on N. A memory that starts from given words has all N.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.cuda.arena import Places, cut, placed
from sparsam.state import DenseMemory, TensorStore, blended, changed_rows, taken

TENSORS = ("words", "last_access", "counters", "queue_rows", "queue_stamps", "usage")
CLOCK, USED, FRONTIER, HEAD, TAIL = range(5)  # columns of `counters`
COUNTERS = 8
SPARE_ENTRIES = 4096  # of a queue, beyond twice its rows, before it is put in order again


@dataclass(frozen=True, eq=False, repr=False)
class CudaMemory(TensorStore):
    """The first M of N words of every batch element, and the ring as `kernels.ring` keeps it. A value like every state.

    Rows from M to N are those of `start`, never accessed.
    """

    words: Tensor  # (B, M, W)
    last_access: Tensor  # (B, M) int32: step of the last access, 0 for none
    counters: Tensor  # (B, 8) int32: clock, rows that may not be blank, frontier, head and tail of the queue
    queue_rows: Tensor  # (B, Q) int32
    queue_stamps: Tensor
    rows: int  # N
    touched: int  # no row from here on was ever written or read, as the host knows without asking the device
    entries: int  # likewise the end of the queue
    start: Tensor | None = None  # M_0 (N, W) or (B, N, W); None for a blank one
    usage: Tensor | None = None  # u (B, M), of a model with free gates

    engine = "cuda"

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.words.shape[0], self.rows, self.words.shape[2]

    @property
    def clock(self) -> Tensor:
        """(B,) int64, steps taken."""
        return self.counters[:, CLOCK].long()

    def tensors(self) -> tuple[Tensor, ...]:
        ring = (self.words, self.last_access, self.counters, self.queue_rows, self.queue_stamps)
        return ring if self.usage is None else (*ring, self.usage)

    def _with(self, tensors: Iterable[Tensor]) -> CudaMemory:
        changed: dict[str, Any] = dict(zip(TENSORS, tensors))
        return dataclasses.replace(self, **changed)

    def detach(self) -> CudaMemory:
        if not self.words.requires_grad and (self.start is None or not self.start.requires_grad):
            return self
        start = None if self.start is None else self.start.detach()
        return dataclasses.replace(self, words=self.words.detach(), start=start)

    def clone(self) -> CudaMemory:
        return self._with(value.clone() for value in self.tensors())

    def blend(self, mask: Tensor, other: CudaMemory) -> CudaMemory:
        rows = max(self.words.shape[1], other.words.shape[1])
        queue = max(self.queue_rows.shape[1], other.queue_rows.shape[1])
        ours, theirs = self.grown(rows, queue), other.grown(rows, queue)
        mixed = self._with(blended(mask, b, a) for a, b in zip(ours.tensors(), theirs.tensors()))
        touched, entries = max(self.touched, other.touched), max(self.entries, other.entries)
        mixed = dataclasses.replace(mixed, touched=touched, entries=entries)
        if self.start is other.start:
            return mixed
        return dataclasses.replace(mixed, start=blended(mask, other.whole_start(), self.whole_start()))

    def select(self, index: Tensor) -> CudaMemory:
        start = self.start if self.start is None or self.start.dim() == 2 else taken(self.start, index)
        return dataclasses.replace(self._with(taken(value, index) for value in self.tensors()), start=start)

    @classmethod
    def cat(cls, stores: Sequence[CudaMemory]) -> CudaMemory:
        rows = max(store.words.shape[1] for store in stores)
        queue = max(store.queue_rows.shape[1] for store in stores)
        whole = [store.grown(rows, queue) for store in stores]
        start = stores[0].start
        if any(store.start is not start for store in stores):
            start = torch.cat([store.whole_start() for store in stores])
        touched = max(store.touched for store in stores)
        entries = max(store.entries for store in stores)
        parts = zip(*(store.tensors() for store in whole))
        return dataclasses.replace(
            stores[0]._with(torch.cat(part) for part in parts), start=start, touched=touched, entries=entries
        )

    def whole_start(self) -> Tensor:
        """M_0 (B, N, W), whatever it was made from."""
        batch, rows, width = self.shape
        blank = self.words.new_zeros(1, 1, 1) if self.start is None else self.start
        return blank.expand(batch, rows, width)

    def describe(self) -> str:
        there, name = self.words.shape[1], str(self.words.dtype).removeprefix("torch.")
        return f"cuda memory of {self.shape} {name} {self.words.device}, {there} rows there"

    def grown(self, rows: int, queue: int) -> CudaMemory:
        words, last_access, counters, queue_rows, queue_stamps, *usage = self.tensors()
        more, places = max(rows - words.shape[1], 0), max(queue - queue_rows.shape[1], 0)
        return self._with(
            (
                F.pad(words, (0, 0, 0, more)),
                F.pad(last_access, (0, more)),
                counters,
                F.pad(queue_rows, (0, places)),
                F.pad(queue_stamps, (0, places)),
                *(F.pad(value, (0, more)) for value in usage),
            )
        )

    def changed_rows(self, b: int) -> tuple[Tensor, Tensor]:
        words = self.words[b]
        if self.start is None:
            return changed_rows(words, torch.zeros_like(words))
        start = self.start if self.start.dim() == 2 else self.start[b]
        return changed_rows(words, start[: words.shape[0]])

    def dense(self) -> DenseMemory:
        rows = self.grown(self.rows, 0)
        return DenseMemory(rows.words, rows.last_access.long(), self.clock, self.whole_start(), rows.usage)


torch.serialization.add_safe_globals([CudaMemory])


def fresh_memory(sizes: Any, batch: int, initial: Tensor | None, like: Tensor) -> CudaMemory:
    """A starting memory, blank or the user's (N, W) or (B, N, W), with the ring in row order; float32 in any case."""
    rows, width = sizes.rows, sizes.width
    there = min(rows, 2 * sizes.k + sizes.heads) if initial is None else rows
    counts = torch.zeros(1, 1, dtype=torch.int32, device=like.device)
    empty = counts.expand(batch, 1)
    counters = counts.expand(batch, COUNTERS)
    if initial is None:
        words = like.new_zeros(1, 1, 1, dtype=torch.float32).expand(batch, there, width)
    else:
        words = initial.to(torch.float32).expand(batch, rows, width)
        used = last_written(initial.detach()).expand(batch)
        counters = torch.stack([used if i == USED else torch.zeros_like(used) for i in range(COUNTERS)], dim=1)
    usage = words.new_zeros(1, 1).expand(batch, there) if sizes.allocation == "free" else None
    return CudaMemory(words, counts.expand(batch, there), counters, empty, empty, rows, there, 0, initial, usage)


def from_dense(memory: DenseMemory) -> CudaMemory:
    last_access = memory.last_access.to(torch.int32)
    zeros = torch.zeros_like(memory.clock, dtype=torch.int32)
    columns = [zeros] * COUNTERS
    columns[CLOCK] = memory.clock.to(torch.int32)
    columns[USED] = last_written(memory.words.detach())
    ring, rows = (last_access, torch.stack(columns, dim=1), last_access, last_access), memory.words.shape[1]
    return in_order(CudaMemory(memory.words, *ring, rows, rows, 0, memory.start, memory.usage))


def in_order(memory: CudaMemory) -> CudaMemory:
    """The same ring with a queue of no more than M entries."""
    stamps, order = memory.last_access.sort(dim=1, stable=True)
    counters = memory.counters.clone()
    counters[:, HEAD] = (stamps == 0).sum(1).to(torch.int32)
    counters[:, TAIL] = stamps.shape[1]
    return dataclasses.replace(
        memory,
        counters=counters,
        queue_rows=order.to(torch.int32),
        queue_stamps=stamps.contiguous(),
        entries=stamps.shape[1],
    )


def last_written(words: Tensor) -> Tensor:
    """(...) int32: one more than the last row of words (..., N, W) that is not blank."""
    number = torch.arange(1, words.shape[-2] + 1, dtype=torch.int32, device=words.device)
    return (words.ne(0).any(-1) * number).amax(-1).to(torch.int32)


class Capacity(NamedTuple):
    rows: int
    places: int  # in the queue
    touched: int  # as in `CudaMemory`, after the call
    entries: int
    ordered: bool  # the queue is put in order before


def capacity_for(memory: CudaMemory, sizes: Any, steps: int) -> Capacity:
    """Room for the rows and the accesses that `steps` steps can add; it grows by halves, so that of many short calls
    few have to make it."""
    there, places, entries = memory.words.shape[1], memory.queue_rows.shape[1], memory.entries
    ordered = entries > 2 * there + SPARE_ENTRIES
    if ordered:
        places = entries = there
    touched = min(sizes.rows, memory.touched + (sizes.heads + sizes.k) * steps)
    if sizes.allocation == "ring":
        entries = entries + steps * (2 * sizes.heads * sizes.k + sizes.heads)
    rows = there if touched <= there else min(sizes.rows, max(touched, there + there // 2))
    places = places if entries <= places else max(entries, places + places // 2)
    return Capacity(rows, places, touched, entries, ordered)


def working_copy(memory: CudaMemory, sizes: Any, steps: int, apart: bool = False) -> CudaMemory:
    """What a call of `steps` steps writes to: a copy with room for what it can add; `apart`: no two in one piece."""
    capacity = capacity_for(memory, sizes, steps)
    batch, _, width = memory.words.shape
    if capacity.ordered:
        memory = in_order(memory)
    if memory.words.stride(1) == 0 and memory.start is None and not apart:  # blank and never touched: every number is 0
        shape = (batch, capacity.rows, capacity.places, width, memory.usage is not None)
        tensors: dict[str, Any] = _blank(*shape, memory.words.device)
    else:
        tensors = {
            "words": _extended(memory.words.detach(), capacity.rows),
            "last_access": _extended(memory.last_access, capacity.rows),
            "counters": memory.counters.clone(memory_format=torch.contiguous_format),
            "queue_rows": _extended(memory.queue_rows, capacity.places),
            "queue_stamps": _extended(memory.queue_stamps, capacity.places),
        }
        if memory.usage is not None:
            tensors["usage"] = _extended(memory.usage, capacity.rows)
    known: Any = {"rows": memory.rows, "touched": capacity.touched, "entries": capacity.entries, "start": memory.start}
    return CudaMemory(**tensors, **known)


def _blank(batch: int, rows: int, places: int, width: int, usage: bool, device: torch.device) -> dict[str, Tensor]:
    where, count = _blank_places(batch, rows, places, width, usage)
    return cut(torch.zeros(count, dtype=torch.int32, device=device), where)


@lru_cache(maxsize=256)
def _blank_places(batch: int, rows: int, places: int, width: int, usage: bool) -> tuple[Places, int]:
    return placed(shapes_of(batch, rows, places, width, usage))


def shapes_of(batch: int, rows: int, places: int, width: int, usage: bool) -> dict[str, tuple[tuple[int, ...], bool]]:
    """The shapes of a memory's tensors, and whether they hold whole numbers."""
    shapes: dict[str, tuple[tuple[int, ...], bool]] = {
        "words": ((batch, rows, width), False),
        "last_access": ((batch, rows), True),
        "counters": ((batch, COUNTERS), True),
        "queue_rows": ((batch, places), True),
        "queue_stamps": ((batch, places), True),
    }
    return shapes | ({"usage": ((batch, rows), False)} if usage else {})


def _extended(values: Tensor, rows: int) -> Tensor:
    """A copy of values (B, M, ...) with room for `rows`, blank where there were none."""
    from sparsam.engines.cuda.launch import LARGE, spread

    there = values.shape[1]
    if rows == there:
        if values.stride(0) == 0 and values.numel() >= LARGE:
            return spread(values[0], values.shape[0])
        return values.clone(memory_format=torch.contiguous_format)
    shape = (values.shape[0], rows, *values.shape[2:])
    copy = values.new_zeros(shape)
    copy[:, :there] = values
    return copy
