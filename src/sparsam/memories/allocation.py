"""Which words a sparse memory writes anew: the ring's (the paper), or with `allocation="free"` the least used ones."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from sparsam.engines.reference import free_usage, ring
from sparsam.engines.reference.links import averaged_writes
from sparsam.engines.reference.usage import least_used
from sparsam.memories.part import Part
from sparsam.state import DenseMemory

ALLOCATIONS: dict[str, Allocation] = {}  # by name, filled where one is defined


class Touched(NamedTuple):
    """The accesses of one step, (B, R, K + 1) and (B, R, K)."""

    write_rows: Tensor
    write_weights: Tensor
    read_rows: Tensor
    read_weights: Tensor


class Allocation(Part, ABC):
    """How rows are chosen, and what a memory notes about its accesses for that."""

    name: ClassVar[str]

    def fresh(self, memory: DenseMemory) -> DenseMemory:
        """A memory that nothing has touched, with what this part notes."""
        return memory

    @abstractmethod
    def unused(self, request: dict[str, Tensor], state: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Step 2: the rows u (B, R) to write anew, the room (B, R) that each has, and the usage (B, N) behind it.

        Room and usage are None where nothing limits how much is written.
        """

    @abstractmethod
    def accessed(self, memory: DenseMemory, usage: Tensor | None, step: Touched, delta: float) -> dict[str, Tensor]:
        """Step 6: the fields of the memory that say which rows come next, after this step's accesses."""

    def check(self, memory: DenseMemory) -> None:
        """Refuse a state of a model with another allocation."""
        if (memory.usage is not None) != (self.name == "free"):
            raise ValueError(f"state: expected one of allocation={self.name!r}, got one of the other")


def register(kind: type[Allocation]) -> type[Allocation]:
    """Make an allocation known by its name."""
    ALLOCATIONS[kind.name] = kind()
    return kind


@register
class RingAllocation(Allocation):
    """The least recently accessed rows."""

    name = "ring"

    def unused(self, request: dict[str, Tensor], state: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        self.check(state.memory)
        return ring.least_recently_accessed(state.memory.last_access, state.read_rows.shape[1]), None, None

    def accessed(self, memory: DenseMemory, usage: Tensor | None, step: Touched, delta: float) -> dict[str, Tensor]:
        rows = memory.words.shape[1]
        used = ring.summed_weights(step.write_rows, step.write_weights, rows)
        used = used + ring.summed_weights(step.read_rows, step.read_weights, rows)
        last_access, clock = ring.touch(memory.last_access, memory.clock, used > delta)
        return {"last_access": last_access, "clock": clock}


@register
class FreeAllocation(Allocation):
    """The rows of least usage, as in the DNC (`sparsam.engines.reference.free_usage` has every rule).

    A step frees u(i) <- u(i) prod_h (1 - f_h w^R_{t-1,h}(i)), writes
    w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) (1 - u(u_h)) 1[u_h]) to the R rows u_h of least usage, and ends
    with u <- u + w - u w. Then `delta` changes nothing.
    """

    name = "free"

    def fresh(self, memory: DenseMemory) -> DenseMemory:
        batch, rows, _ = memory.words.shape
        return dataclasses.replace(memory, usage=memory.words.new_zeros(batch, rows))

    def unused(self, request: dict[str, Tensor], state: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        self.check(state.memory)
        usage = free_usage.freed(state.memory.usage, request["free_gates"], state.read_rows, state.read_weights)
        rows = least_used(usage.detach(), state.read_rows.shape[1])
        return rows, free_usage.room(usage, rows), usage

    def accessed(self, memory: DenseMemory, usage: Tensor | None, step: Touched, delta: float) -> dict[str, Tensor]:
        assert usage is not None
        written = averaged_writes(step.write_rows, step.write_weights, memory.words.shape[1])
        return {"usage": free_usage.filled(usage, written)}
