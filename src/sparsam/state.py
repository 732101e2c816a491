"""What one call of a model hands to the next.

Letters used throughout (paper, letter, word in the code):
    T time steps, B batch, I input width, O output width, H controller width (`hidden_size`),
    N words in memory (`memory_size`), W word width (`word_size`), R access heads (`num_heads`),
    K words read per head (`k`), K_L links kept per row (`k_links`).

A state is a value: its methods return new states and leave the old one usable. Memories define their own states as
records of batch-first fields. A field is a tensor, a store (a memory or links, see `Store`), or whatever a user's
own controller carries; `start` is the state that `reset` returns to.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from sparsam import checks
from sparsam.record import Record

if TYPE_CHECKING:
    import numpy as np

Self = TypeVar("Self", bound="State")


class Store(Protocol):
    """A field of a state that is not a tensor: the memory or the links of one engine, for a whole batch."""

    engine: str  # the engine that it belongs to

    @property
    def shape(self) -> tuple[int, ...]: ...
    def detach(self) -> Any: ...
    def clone(self) -> Any: ...
    def to(self, *args: Any, **kwargs: Any) -> Any: ...
    def blend(self, mask: Tensor, other: Any) -> Any: ...
    def select(self, index: Tensor) -> Any: ...
    @classmethod
    def cat(cls, stores: Sequence[Any]) -> Any: ...


def converted(value: Any, *args: Any, **kwargs: Any) -> Any:
    """`value.to(...)`, where a change of dtype leaves rows and clocks the integers they are."""
    if isinstance(value, Tensor) and not value.is_floating_point():
        device = torch._C._nn._parse_to(*args, **kwargs)[0]  # pyright: ignore[reportAttributeAccessIssue]
        return value if device is None else value.to(device)
    return value.to(*args, **kwargs)


def blended(mask: Tensor, where_true: Any, where_false: Any) -> Any:
    """Per batch element, the first value where `mask` (B,) holds and the second elsewhere."""
    if isinstance(where_false, Tensor):
        return torch.where(mask.view(-1, *[1] * (where_false.dim() - 1)), where_true, where_false)
    if hasattr(where_false, "blend"):
        return where_false.blend(mask, where_true)
    return pytree.tree_map(lambda a, b: blended(mask, a, b), where_true, where_false)


def taken(value: Any, index: Tensor) -> Any:
    """The batch elements that `index` names, in its order."""
    if isinstance(value, Tensor):
        if value.stride(0) == 0 and value.dim() > 1:  # all elements are one: nothing is copied
            return value[:1].expand(index.numel(), *value.shape[1:])
        return value.index_select(0, index.to(value.device))
    if hasattr(value, "select"):
        return value.select(index)
    return pytree.tree_map(lambda part: taken(part, index), value)


def joined(values: Sequence[Any]) -> Any:
    """Values of several batches as those of one."""
    first = values[0]
    if isinstance(first, Tensor):
        one = all(v.stride() == first.stride() and v.data_ptr() == first.data_ptr() for v in values)
        # A detached value has the numbers of another one, and not its gradient.
        if one and first.stride(0) == 0 and first.dim() > 1 and not any(v.requires_grad for v in values):
            return first[:1].expand(sum(v.shape[0] for v in values), *first.shape[1:])
        return torch.cat(list(values))
    if hasattr(first, "cat"):
        return type(first).cat(values)
    return pytree.tree_map(lambda *parts: joined(parts), *values)


class State(Record):
    """What a model carries from one call to the next. Every model has its own subclass with further fields.

    A state is a value: calls return a new one and never change the one they are given.
    """

    hidden: Tensor | None  # h (B, H) of an LSTM or GRU, (B, layers, H) with several layers; None for other controllers
    cell: Tensor | None  # c of an LSTM, likewise
    controller: Any = field(default=None, kw_only=True)  # what a user's own controller carries

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        torch.serialization.add_safe_globals([cls])  # torch.load reads states with its default weights_only=True

    def values(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each field that is set, without `start`."""
        for name in self.field_names:
            value = getattr(self, name)
            if name != "start" and value is not None:
                yield name, value

    def map(self: Self, change: Callable[[Any], Any]) -> Self:
        """A state with `change` applied to every tensor and store."""
        changed = {}
        for name, value in self.values():
            single = isinstance(value, Tensor) or name != "controller"
            changed[name] = change(value) if single else pytree.tree_map(change, value)
        return self.with_fields(**changed)

    def _with_start(self: Self, changed: Self, change: Callable[[Self], Self]) -> Self:
        start = getattr(self, "start", None)
        return changed if start is None else changed.with_fields(start=change(start))

    @property
    def batch_size(self) -> int:
        for _, value in self.values():
            if isinstance(value, Tensor):
                return value.shape[0]
        raise ValueError(f"{type(self).__name__}: expected a field that is a tensor, got none")

    @property
    def origin(self: Self) -> Self:
        """The state in which this sequence began."""
        return getattr(self, "start", None) or self

    def detach(self: Self) -> Self:
        """The same values, detached from the autograd graph (truncated backpropagation)."""
        return self._with_start(self.map(lambda value: value.detach()), lambda start: start.detach())

    def clone(self: Self) -> Self:
        """A state that shares no storage with this one."""
        return self.map(lambda value: value.clone())

    @overload
    def to(
        self: Self,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        *,
        engine: str | None = None,
    ) -> Self: ...
    @overload
    def to(self: Self, dtype: torch.dtype, non_blocking: bool = False, *, engine: str | None = None) -> Self: ...
    @overload
    def to(self: Self, other: Tensor, non_blocking: bool = False, *, engine: str | None = None) -> Self: ...
    def to(self: Self, *args: Any, engine: str | None = None, **kwargs: Any) -> Self:
        """The state on another device, in another floating-point type, or converted to another engine.

        `state.to(engine="reference")` converts exactly. Gradients flow through all of these.
        """
        dtype = torch._C._nn._parse_to(*args, **kwargs)[1]  # pyright: ignore[reportAttributeAccessIssue]
        checks.floating_dtype("dtype", dtype)
        if engine is not None:
            from sparsam.engines import convert

            return convert(self.to(*args, **kwargs) if args or kwargs else self, engine)  # type: ignore[return-value]
        return self._with_start(
            self.map(lambda value: converted(value, *args, **kwargs)), lambda start: start.to(*args, **kwargs)
        )

    def blend(self: Self, mask: Tensor, other: Self) -> Self:
        """`other` for batch elements where `mask` (B,) is true, this state for the rest."""
        if type(other) is not type(self):
            raise TypeError(f"other: expected a {type(self).__name__}, got {type(other).__name__}")
        device = next(value.device for _, value in self.values() if isinstance(value, Tensor))
        mask, theirs = checks.reset_mask(mask, self.batch_size, device), dict(other.values())
        for name, value in self.values():
            if name not in theirs or getattr(theirs[name], "shape", None) != getattr(value, "shape", None):
                raise ValueError(f"other: expected {name} {described(value)}, got {described(theirs.get(name))}")
        mixed = self.with_fields(**{name: blended(mask, theirs[name], value) for name, value in self.values()})
        ours, start = self.origin, other.origin
        if start is ours or (ours is self and start is other):  # a start of two starts needs none of its own
            return mixed
        return mixed.with_fields(start=ours.blend(mask, start))

    def reset(self: Self, mask: Tensor) -> Self:
        """Batch elements where `mask` (B,) is true start afresh; the others continue."""
        return self.blend(mask, self.origin)

    def __getitem__(self: Self, index: int | slice | Sequence[int] | Tensor) -> Self:
        """Some batch elements, by an int (a batch of one), a slice, a list, a tensor of indices or a mask (B,)."""
        at = checks.batch_index(index, self.batch_size)
        return self._with_start(self.map(lambda value: taken(value, at)), lambda start: start[at])

    def __len__(self) -> int:
        return self.batch_size

    def __iter__(self: Self) -> Iterator[Self]:
        return (self[b] for b in range(self.batch_size))

    def expand(self: Self, n: int) -> Self:
        """`n` copies of every batch element, next to each other, for beam search and the like."""
        checks.positive_int("n", n)
        return self[torch.arange(self.batch_size, device="cpu").repeat_interleave(n)]

    def pack(self, rows: int | None = None) -> dict[str, Tensor]:
        """The state as tensors (B, ...) of fixed shape, with up to `rows` rows of a sparse memory (`sparsam.packing`).

        `model.unpack` restores it, in this process or another, with the same bits in all later calls.
        """
        from sparsam import packing

        return packing.pack(self, rows)

    def ticket(self) -> Tensor:
        """A tensor (B, 10) that stands for this state, detached, in this process (`sparsam.tickets`)."""
        from sparsam.tickets import TABLE

        device = next(value.device for _, value in self.values() if isinstance(value, Tensor))
        return torch.from_numpy(TABLE.put(self.detach())).to(device)

    def numpy(self) -> np.ndarray:
        """The state's tickets as an array. A TensorDict calls this, and so stores tickets."""
        tensors = [value for _, value in self.values() if isinstance(value, Tensor)]
        if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
            warnings.warn(
                "state: a TensorDict stores tickets, which carry no gradient; to learn through time, run those steps "
                "in one call; to silence this warning, pass state.detach()",
                stacklevel=2,
            )
        return self.ticket().numpy(force=True)

    def memory_rows(self, b: int) -> tuple[Tensor, Tensor]:
        """The rows of batch element `b` that differ from the initial memory, ascending, and their words."""
        checks.element("b", b, self.batch_size)
        memory = getattr(self, "memory", None)
        if memory is None:
            raise ValueError(f"{type(self).__name__} has no memory")
        if not isinstance(memory, Tensor):
            return memory.changed_rows(b)
        return changed_rows(memory[b], self.origin.memory[b])  # type: ignore[attr-defined]

    @property
    def index_used(self) -> tuple[str, ...]:
        """The index that answered in the last call, by batch element: "linear" (exact), "scan", "kdtree" or "lsh"."""
        memory = getattr(self, "memory", None)
        found = getattr(memory, "index_used", None)
        return ("linear",) * self.batch_size if found is None else found

    def __repr__(self) -> str:
        """One line: the fields and what they are, not their numbers."""
        return f"{type(self).__name__}({', '.join(f'{name}: {described(value)}' for name, value in self.values())})"


def described(value: Any) -> str:
    """A tensor by its shape and type, a store by its own words."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')} {value.device}"
    if hasattr(value, "describe"):
        return value.describe()
    leaves = [described(leaf) for leaf in pytree.tree_leaves(value)]
    return f"({', '.join(leaves)})"


def cat(states: Sequence[Self]) -> Self:
    """Join the states of several batches into the state of one batch, in order."""
    if not isinstance(states, Iterable):
        raise TypeError(f"states: expected states of several batches, got {type(states).__name__}")
    states = list(states)
    if not states:
        raise ValueError("states: expected at least one state, got none")
    kinds = {type(state) for state in states}
    if len(kinds) > 1 or not isinstance(states[0], State):
        raise TypeError(f"states: expected states of one kind, got {', '.join(sorted(k.__name__ for k in kinds))}")
    fields = [dict(state.values()) for state in states]
    if any(set(other) != set(fields[0]) for other in fields):
        raise ValueError("states: expected the same fields in each, got states of different controllers or engines")
    for name, value in fields[0].items():
        if any(type(other[name]) is not type(value) for other in fields):
            raise ValueError(f"states: expected {name} of one engine in each; convert them with state.to(engine=...)")
    for name, value in fields[0].items():
        shapes = {tuple(other[name].shape[1:]) for other in fields if hasattr(value, "shape")}
        if len(shapes) > 1:
            raise ValueError(f"states: expected {name} of one shape in each, got {', '.join(map(str, sorted(shapes)))}")
    whole = states[0].with_fields(**{n: joined([other[n] for other in fields]) for n in fields[0]})
    starts = [state.origin for state in states]
    if all(start is state for start, state in zip(starts, states)):  # a start of starts needs none of its own
        return whole
    return whole.with_fields(start=cat(starts))


def changed_rows(words: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in which two (N, W) memories differ, and the words of the first there."""
    rows = (words != start).any(dim=-1).nonzero().squeeze(-1)
    return rows, words[rows].detach()


@dataclass(frozen=True, eq=False, repr=False)
class TensorStore:
    """A store whose fields are tensors with the batch first; others are settings."""

    engine = "reference"

    def named(self) -> dict[str, Tensor]:
        found = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def map(self, change: Callable[[Tensor], Any]) -> Any:
        return dataclasses.replace(self, **{name: change(value) for name, value in self.named().items()})

    def detach(self) -> Any:
        return self.map(lambda value: value.detach())

    def clone(self) -> Any:
        return self.map(lambda value: value.clone())

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return self.map(lambda value: converted(value, *args, **kwargs))

    def blend(self, mask: Tensor, other: Any) -> Any:
        theirs = other.named()
        mixed = {name: blended(mask, theirs[name], value) for name, value in self.named().items()}
        return dataclasses.replace(self, **mixed)

    def select(self, index: Tensor) -> Any:
        return self.map(lambda value: taken(value, index))

    @classmethod
    def cat(cls, stores: Sequence[Any]) -> Any:
        names = stores[0].named()
        return dataclasses.replace(stores[0], **{n: joined([getattr(s, n) for s in stores]) for n in names})

    def describe(self) -> str:
        first = next(iter(self.named().values()))
        return f"{type(self).__name__} of {tuple(first.shape)} {str(first.dtype).removeprefix('torch.')} {first.device}"


@dataclass(frozen=True, eq=False, repr=False)
class DenseMemory(TensorStore):
    """The reference's memory: all N words of every batch element, and when each was last accessed.

    `last_access` holds the step (counted from 1) of a row's last access, 0 for none: the order of the paper's ring is
    the order by (last_access, row), so the ring needs no links here. A model that allocates by usage has `usage` and
    leaves the ring alone.
    """

    words: Tensor  # M (B, N, W)
    last_access: Tensor  # (B, N) int64
    clock: Tensor  # (B,) int64, steps taken
    start: Tensor  # M_0 (B, N, W), a view of one (N, W) where the batch shares it
    usage: Tensor | None = None  # u (B, N), of a model with free gates

    @property
    def shape(self) -> torch.Size:
        return self.words.shape

    def changed_rows(self, b: int) -> tuple[Tensor, Tensor]:
        return changed_rows(self.words[b], self.start[b])


torch.serialization.add_safe_globals([DenseMemory])


def dense_memory(batch: int, rows: int, width: int, initial: Tensor | None, like: Tensor) -> DenseMemory:
    """A starting memory, blank or the user's, with the ring in row order.

    A blank one is a single zero seen N·W times over: it takes no bytes until a step writes it. A user's is copied, so
    that changing the tensor later does not change the state.
    """
    start = like.new_zeros(1, 1, 1) if initial is None else initial.clone()
    start = start.expand(batch, rows, width)
    clock = torch.zeros(batch, dtype=torch.int64, device=like.device)
    return DenseMemory(start, clock[:, None].expand(batch, rows), clock, start)
