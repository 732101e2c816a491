"""What one call of a model hands to the next.

Letters used throughout (paper, letter, word in the code):
    T time steps, B batch, I input width, O output width, H controller width (`hidden_size`),
    N words in memory (`memory_size`), W word width (`word_size`), R access heads (`num_heads`),
    K words read per head (`k`), K_L links kept per row (`k_links`).

A state is a value: its methods return new states and leave the old one usable. Models define their own states as
dataclasses of batch-first fields; a field is a tensor or a store (a memory with its own `detach`, `clone`, `to`,
`blend`), and `start` is the state that `reset` returns to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from sparsam import checks

Self = TypeVar("Self", bound="State")


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
    return where_false.blend(mask, where_true)


@dataclass(frozen=True, eq=False)
class State:
    """Base of all states: `detach`, `clone`, `to`, `reset` and `memory_rows`."""

    hidden: Tensor  # h (B, H)
    cell: Tensor  # c (B, H)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        torch.serialization.add_safe_globals([cls])  # torch.load reads states with its default weights_only=True

    def values(self) -> Iterator[tuple[str, Any]]:
        """The named fields, `start` left out."""
        for field in dataclasses.fields(self):
            if field.name != "start":
                yield field.name, getattr(self, field.name)

    def map(self: Self, change: Callable[[Any], Any]) -> Self:
        """A state with `change` applied to every field."""
        return dataclasses.replace(self, **{name: change(value) for name, value in self.values()})

    @property
    def batch_size(self) -> int:
        return self.hidden.shape[0]

    @property
    def origin(self: Self) -> Self:
        """The state that this one began from."""
        return getattr(self, "start", None) or self

    def detach(self: Self) -> Self:
        """The same values, cut from the autograd graph (truncated BPTT)."""
        return self.map(lambda value: value.detach())

    def clone(self: Self) -> Self:
        """A state that shares no storage with this one."""
        return self.map(lambda value: value.clone())

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """The state on another device or in another floating-point type."""
        moved = self.map(lambda value: converted(value, *args, **kwargs))
        start = getattr(self, "start", None)
        return moved if start is None else dataclasses.replace(moved, start=start.to(*args, **kwargs))  # type: ignore[call-arg]

    def blend(self: Self, mask: Tensor, other: Self) -> Self:
        """Per batch element, `other` where the mask holds and this state elsewhere."""
        theirs = dict(other.values())
        changed = {name: blended(mask, theirs[name], value) for name, value in self.values()}
        return dataclasses.replace(self, **changed)

    def reset(self: Self, mask: Tensor) -> Self:
        """The batch elements where `mask` (B,) holds start anew, the others go on."""
        mask = checks.reset_mask(mask, self.batch_size, self.hidden.device)
        return self.blend(mask, self.origin)

    def memory_rows(self, b: int) -> tuple[Tensor, Tensor]:
        """Rows (ascending) and words of batch element `b` that differ from the initial memory."""
        if not 0 <= b < self.batch_size:
            raise ValueError(f"b: expected a batch element in 0..{self.batch_size - 1}, got {b}")
        memory = getattr(self, "memory", None)
        if memory is None:
            raise ValueError(f"{type(self).__name__} has no memory")
        if not isinstance(memory, Tensor):
            return memory.changed_rows(b)
        return changed_rows(memory[b], self.origin.memory[b])  # type: ignore[attr-defined]


def changed_rows(words: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in which two (N, W) memories differ, and the words of the first there."""
    rows = (words != start).any(dim=-1).nonzero().squeeze(-1)
    return rows, words[rows].detach()


@dataclass(frozen=True, eq=False)
class DenseMemory:
    """The reference's memory: all N words of every batch element, and when each was last accessed.

    `last_access` holds the step (counted from 1) of a row's last access, 0 for none: the order of the paper's ring is
    the order by (last_access, row), so the ring needs no links here. A model that allocates by usage has `usage` and
    leaves the ring alone.
    """

    words: Tensor  # M (B, N, W)
    last_access: Tensor  # (B, N) int64
    clock: Tensor  # (B,) int64, steps taken
    start: Tensor  # M_0, (N, W) or (B, N, W)
    usage: Tensor | None = None  # u (B, N), of a model with free gates

    @property
    def shape(self) -> torch.Size:
        return self.words.shape

    def detach(self) -> DenseMemory:
        return dataclasses.replace(self, words=self.words.detach())

    def clone(self) -> DenseMemory:
        usage = None if self.usage is None else self.usage.clone()
        return DenseMemory(self.words.clone(), self.last_access.clone(), self.clock.clone(), self.start, usage)

    def to(self, *args: Any, **kwargs: Any) -> DenseMemory:
        fields = (self.words, self.last_access, self.clock, self.start)
        words, last_access, clock, start = (converted(value, *args, **kwargs) for value in fields)
        usage = None if self.usage is None else converted(self.usage, *args, **kwargs)
        return DenseMemory(words, last_access, clock, start, usage)

    def blend(self, mask: Tensor, other: DenseMemory) -> DenseMemory:
        return DenseMemory(
            blended(mask, other.words, self.words),
            blended(mask, other.last_access, self.last_access),
            blended(mask, other.clock, self.clock),
            self.start,
            None if self.usage is None else blended(mask, other.usage, self.usage),
        )

    def changed_rows(self, b: int) -> tuple[Tensor, Tensor]:
        return changed_rows(self.words[b], self.start if self.start.dim() == 2 else self.start[b])


torch.serialization.add_safe_globals([DenseMemory])


def dense_memory(batch: int, rows: int, width: int, initial: Tensor | None, like: Tensor) -> DenseMemory:
    """A starting memory, blank or the user's, with the ring in row order."""
    start = like.new_zeros(rows, width) if initial is None else initial
    clock = torch.zeros(batch, dtype=torch.int64, device=like.device)
    return DenseMemory(start.expand(batch, rows, width), clock[:, None].expand(batch, rows), clock, start)
