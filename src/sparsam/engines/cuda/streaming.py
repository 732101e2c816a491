"""One step per call without a gradient: the step replayed as a CUDA graph, from one set of buffers to another.

A call of one step is a dozen calls of torch and a launch, over which the host takes far longer than the GPU. A graph
keeps them, with the addresses that they were captured for. So states live in buffers that are used again: a
step goes from those of the state that is given to others that nobody holds any more. States stay values: as long as
anybody holds a state, its memory or one of its tensors, its buffers are not written to.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import threading
import weakref
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda import interpreted, program
from sparsam.engines.cuda.layout import layout_of
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import SPARE_ENTRIES, CudaMemory, shapes_of
from sparsam.engines.cuda.weights import Weights
from sparsam.engines.engine import Controller, Ran
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory

CALLS_BEFORE = 3  # of one step in a row, before anything is captured
STEPS_HELD = 500  # steps that the first buffers have room for
MOST_BYTES = 1 << 28  # of the buffers of one state; beyond, a step is not what a call waits for
MOST_BUFFERS = 4  # states of one model that are held at the same time and have buffers

_streams: weakref.WeakKeyDictionary[Memory, Stream] = weakref.WeakKeyDictionary()
_lock = threading.Lock()

Shapes = dict[str, tuple[tuple[int, ...], torch.dtype]]


def run(memory: Any, controller: Controller | None, x: Tensor, state: Any) -> Ran | None:
    """A step x (1, B, I) from `state`; None where the plain way has to do it."""
    if not x.is_cuda and not interpreted():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    if x.is_cuda and (torch._C._cuda_isCurrentStreamCapturing() or torch.is_autocast_enabled("cuda")):
        return None
    key = _key(controller, x, state)
    with _lock:
        stream = _streams.get(memory)
        if stream is None or stream.key != key:
            stream = _streams[memory] = Stream(key)
        return stream.step(memory.sizes, controller, x, state)


def _key(controller: Controller | None, x: Tensor, state: Any) -> tuple[Any, ...]:
    """What a captured step depends on beside the buffers."""
    stream = torch._C._cuda_getCurrentRawStream(x.device.index) if x.is_cuda else 0
    places = (
        () if controller is None else tuple(value.data_ptr() for value in (*controller.weights, *controller.interface))
    )
    hidden = 0 if controller is None else controller.hidden
    return x.shape, x.dtype, x.device, state.read.dtype, hidden, stream, places


class HeldMemory(CudaMemory):
    """A memory in buffers of a stream, whose tensors are made when somebody asks for them."""

    def __getattr__(self, name: str) -> Any:
        buffers = self.__dict__.get("buffers")
        if buffers is None or name not in buffers.memory.places:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        value = self.__dict__[name] = buffers.memory.view(name)
        return value

    def __reduce__(self) -> Any:
        """Copies and files have tensors of their own."""
        tensors = [value.clone() for value in self.tensors()]
        return CudaMemory, (*tensors[:5], self.rows, self.touched, self.entries, self.start, *tensors[5:])


class Arena:
    """Tensors in one piece of memory for each type, which knows whether anybody else still has a tensor of it.

    A tensor takes microseconds to make. Those that every call hands out are therefore `kept`, and anybody else who has
    one is seen by its counts of references.
    """

    def __init__(self, shapes: Shapes, device: torch.device, kept: bool = False) -> None:
        self.places: dict[str, tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int]] = {}
        ends: dict[torch.dtype, int] = {}
        for name, (shape, dtype) in shapes.items():
            strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
            begin = ends.get(dtype, 0)
            self.places[name] = (dtype, shape, strides, begin)
            ends[dtype] = begin + -(-math.prod(shape) // 16) * 16
        with torch.inference_mode(False):
            self.bases = {dtype: torch.zeros(end, dtype=dtype, device=device) for dtype, end in ends.items()}
        self.storages = [base.untyped_storage() for base in self.bases.values()]
        self.kept: dict[str, Tensor] = {}
        if kept and COUNTED:
            self.kept = {name: self.view(name) for name in shapes}
        self.own = self.holders()

    def holders(self) -> list[Any]:
        counts: list[Any] = [torch._C._storage_Use_Count(storage._cdata) for storage in self.storages]
        for value in self.kept.values():
            counts.append((value._use_count(), sys.getrefcount(value), value.requires_grad))  # type: ignore[attr-defined]
        return counts

    def view(self, name: str) -> Tensor:
        if name in self.kept:
            return self.kept[name]
        dtype, shape, strides, begin = self.places[name]
        return self.bases[dtype].as_strided(shape, strides, begin)

    @property
    def free(self) -> bool:
        return self.holders() == self.own


class Buffers:
    """A state's tensors at fixed addresses: the small ones, which a caller sees, and memory and links."""

    def __init__(self, sizes: SparseSizes, controller: Controller | None, state: Any, rows: int, places: int) -> None:
        read, kind = state.read, state.read.dtype
        batch, units = read.shape[0], 0 if controller is None else controller.hidden
        wide: Shapes = {"joint": ((1, batch, units + sizes.read_size), kind), "read": (tuple(read.shape), kind)}
        wide["read_rows"] = (tuple(state.read_rows.shape), torch.int64)
        wide["read_weights"] = (tuple(state.read_weights.shape), kind)
        for name in () if controller is None else ("hidden", "cell"):
            if getattr(state, name) is not None:
                wide[name] = ((batch, units), kind)
        self.small = Arena(wide, read.device, kept=True)
        self.seen = tuple(name for name in wide if name != "joint")
        self.addresses = {name: self.small.view(name).data_ptr() for name in self.seen}
        held = shapes_of(batch, rows, places, sizes.width, state.memory.usage is not None)
        types = {name: (shape, torch.int32 if whole else torch.float32) for name, (shape, whole) in held.items()}
        self.memory = Arena(types, read.device)
        listed: Shapes = {}
        for name, value in _link_tensors(state).items():
            shape = (batch, rows, sizes.k_links) if value.dim() == 3 else (batch, sizes.k_links)
            listed[name] = (shape, value.dtype)
        self.links = Arena(listed, read.device)
        size = layout_of(sizes, "none", 0)
        self.more = Arena(
            {"unused": ((batch, size.RP), torch.int32)}, read.device
        )  # rows that the last step wrote anew
        self.carries = not sizes.k_links
        self.rows, self.places = rows, places
        self.number = self.parent = 0  # of what lies here, and of what it was one step before
        self.versions: list[int] = []
        self.holder: weakref.ref[HeldMemory] | None = None  # of the state that was handed out

    @property
    def free(self) -> bool:
        held = None if self.holder is None else self.holder()
        return held is None and self.small.free and self.memory.free and self.links.free

    @property
    def arenas(self) -> tuple[Arena, ...]:
        return self.small, self.memory, self.links, self.more

    def changed_by_hand(self) -> bool:
        """Whether somebody wrote to the memory's tensors since it was noted."""
        return self.versions != [base._version for base in self.memory.bases.values()]

    def note(self, number: int, parent: int) -> None:
        self.number, self.parent = number, parent
        self.versions = [base._version for base in self.memory.bases.values()]

    def holds(self, state: Any) -> bool:
        if getattr(state.memory, "buffers", None) is not self:
            return False
        addresses = self.addresses
        return all(getattr(state, name).data_ptr() == addresses[name] for name in self.seen)

    def before(self, rows: int) -> program.Before:
        """All of it, as a sequence takes it; what the host knows of a memory is not in here."""
        small = {name: self.small.view(name) for name in self.seen}
        tensors = dict(zip(self.memory.places, map(self.memory.view, self.memory.places)))
        memory, links = CudaMemory(**tensors, rows=rows, touched=0, entries=0), self.linked(rows)
        every: Any = (small.get("hidden"), small.get("cell"), *(small[name] for name in READS), memory, links)
        return program.Before(*every)

    def linked(self, rows: int) -> SparseLinks | None:
        tensors: Any = (*map(self.links.view, self.links.places), rows)
        return SparseLinks(*tensors) if self.links.places else None

    def load(self, state: Any) -> None:
        for name in self.seen:
            self.small.view(name).copy_(getattr(state, name))
        pairs = [*zip(self.memory.places, state.memory.tensors()), *_link_tensors(state).items()]
        for name, old in pairs:
            new = (self.memory if name in self.memory.places else self.links).view(name)
            if name == "counters" or new.shape == old.shape:
                new.copy_(old)
                continue
            new[:, : old.shape[1]] = old
            new[:, old.shape[1] :] = -1 if name.endswith("_columns") else 0


COUNTED = hasattr(Tensor, "_use_count")
READS = ("read", "read_rows", "read_weights")
LINKS = tuple(entry.name for entry in dataclasses.fields(SparseLinks)[:6])


def _link_tensors(state: Any) -> dict[str, Tensor]:
    links: SparseLinks | None = getattr(state, "links", None)
    return {} if links is None else dict(zip(LINKS, links.tensors()))


class Turn:
    """A step from one set of buffers to another, captured where there is a GPU."""

    def __init__(
        self, sizes: SparseSizes, controller: Controller | None, x: Tensor, source: Buffers, target: Buffers, near: bool
    ) -> None:
        """`near`: what lies in `target` is one step before what lies in `source`, and is brought up to it."""
        name = "none" if controller is None else controller.name
        weights = (
            None
            if controller is None
            else Weights(*(value.detach() for value in (*controller.weights, *controller.interface)))
        )
        with torch.inference_mode(False):
            self.x = torch.empty_like(x, memory_format=torch.contiguous_format)
        self.x.copy_(x)

        def step() -> None:  # tensors of the buffers are made for as long as it runs, or is captured
            before, after = source.before(sizes.rows), target.before(sizes.rows)
            unused = source.more.view("unused") if near else None
            found, _, run = program.forward(sizes, name, self.x, weights, before, into=after, unused=unused)
            target.small.view("joint").copy_(found)
            target.more.view("unused").copy_(run.tape.unused[0])

        self.replay = step
        if x.is_cuda:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # what is compiled or set up at the first call is not for a graph
                kept = [(base, base.clone()) for arena in target.arenas for base in arena.bases.values()]
                step()
                for base, value in kept:
                    base.copy_(value)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
            self.replay = graph.replay


class Stream:
    """The buffers and captured steps of one model, for one shape of input."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key, self.calls, self.steps_held = key, 0, STEPS_HELD
        self.buffers: list[Buffers] = []
        self.turns: dict[tuple[int, int, bool], Turn] = {}
        self.numbers = itertools.count(1)

    def step(self, sizes: SparseSizes, controller: Controller | None, x: Tensor, state: Any) -> Ran | None:
        self.calls += 1
        if self.calls <= CALLS_BEFORE:
            return None
        memory: CudaMemory = state.memory
        touched = min(sizes.rows, memory.touched + sizes.heads + sizes.k)
        entries = memory.entries + 2 * sizes.heads * sizes.k + sizes.heads
        if self.buffers and (touched > self.buffers[0].rows or entries > self.buffers[0].places):
            if entries > self.buffers[0].places and touched <= self.buffers[0].rows:
                return None  # the queue is put in order first
            self.buffers, self.turns, self.steps_held = [], {}, 2 * self.steps_held
        source = self._source(sizes, controller, state)
        target = None if source is None else self._free(sizes, controller, state, source)
        if source is None or target is None:
            return None
        given, taken = self.buffers[source], self.buffers[target]
        near = given.carries and taken.number == given.parent != 0
        near = near and not given.changed_by_hand() and not taken.changed_by_hand()
        turn = self._turn(sizes, controller, x, source, target, near)
        turn.x.copy_(x)
        turn.replay()
        taken.note(next(self.numbers), given.number)
        return self._handed(memory, self.buffers[target], controller, touched, entries)

    def _source(self, sizes: SparseSizes, controller: Controller | None, state: Any) -> int | None:
        """The buffers that the state lies in; it is taken over when it lies elsewhere."""
        for number, buffers in enumerate(self.buffers):
            if buffers.holds(state):
                return number
        found = self._free(sizes, controller, state)
        if found is not None:
            self.buffers[found].load(state)
            self.buffers[found].note(next(self.numbers), 0)
        return found

    def _free(
        self, sizes: SparseSizes, controller: Controller | None, state: Any, taken: int | None = None
    ) -> int | None:
        """Buffers that nobody holds; None when there are too many already, or one would be too large."""
        for number, buffers in enumerate(self.buffers):
            if number != taken and buffers.free:
                return number
        if len(self.buffers) == MOST_BUFFERS:
            return None
        if self.buffers:
            rows, places = self.buffers[0].rows, self.buffers[0].places
        else:
            memory: CudaMemory = state.memory
            there = max(
                memory.words.shape[1], min(sizes.rows, memory.touched + (sizes.heads + sizes.k) * self.steps_held)
            )
            rows = min(sizes.rows, there)
            each = 2 * sizes.heads * sizes.k + sizes.heads
            places = max(memory.queue_rows.shape[1], 2 * rows + SPARE_ENTRIES) + each * self.steps_held
        batch = state.read.shape[0]
        if batch * (rows * (sizes.width + 4 * sizes.k_links) + 2 * places) * 4 > MOST_BYTES:
            return None
        self.buffers.append(Buffers(sizes, controller, state, rows, places))
        return len(self.buffers) - 1

    def _turn(
        self, sizes: SparseSizes, controller: Controller | None, x: Tensor, source: int, target: int, near: bool
    ) -> Turn:
        turn = self.turns.get((source, target, near))
        if turn is None:
            turn = Turn(sizes, controller, x, self.buffers[source], self.buffers[target], near)
            self.turns[source, target, near] = turn
        return turn

    def _handed(
        self, memory: CudaMemory, buffers: Buffers, controller: Controller | None, touched: int, entries: int
    ) -> Ran:
        """The state after a step, in the buffers that it went to."""
        held = object.__new__(HeldMemory)
        held.__dict__.update(buffers=buffers, rows=memory.rows, touched=touched, entries=entries, start=memory.start)
        if "usage" in buffers.memory.places:
            held.__dict__["usage"] = buffers.memory.view("usage")
        buffers.holder = weakref.ref(held)
        fields: dict[str, Any] = {name: buffers.small.view(name) for name in buffers.seen}
        fields["memory"] = held
        if buffers.links.places:
            fields["links"] = buffers.linked(memory.rows)
        return Ran(buffers.small.view("joint"), fields, ())
