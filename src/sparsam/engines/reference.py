"""The reference engine: plain PyTorch steps, one after the other. Slow, obviously right, any device and dtype."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.engine import Engine, Ran, check_sizes, converted_state, register
from sparsam.memories.memory import Memory
from sparsam.state import State, blended
from sparsam.trace import Access
from sparsam.transforms import autocasts, has_numbers


class ReferenceEngine(Engine):
    """`memory.step` in a loop over time."""

    name = "reference"
    compiles = True

    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        sizes = memory.sizes
        if sizes is not None and not indexes.is_plain(sizes.index):
            return f"it has exact search (index='linear') only, not {sizes.index}"
        return None

    def fresh(self, memory: Memory, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        return memory.fresh(batch, initial, like)

    def steps(self, memory: Memory, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        """Elements past their length keep their state and read 0."""
        reads: list[Tensor] = []
        accesses: list[Access] = []
        fields: dict[str, Any] = {}
        ends = None if ends is None else ends.to(vectors.device)
        kind, cast = vectors.device.type, autocasts(vectors)
        vectors = vectors.to(state.read.dtype) if cast else vectors
        for t, vector in enumerate(vectors.unbind(0)):
            with torch.autocast(kind, enabled=False) if cast else contextlib.nullcontext():
                read, fields, accessed = memory.step(vector, state)
            read = read.flatten(1)
            active = None if ends is None else t < ends
            if active is not None and not (has_numbers(active) and bool(active.all())):
                read = torch.where(active[:, None], read, 0.0)
                fields = {name: blended(active, value, getattr(state, name)) for name, value in fields.items()}
            state = state.with_fields(**fields)
            reads.append(read)
            if record:
                accesses += [access.at(t, active) for access in accessed]
        return Ran(torch.stack(reads), fields, accesses)

    def check(self, memory: Memory, state: Any) -> None:
        super().check(memory, state)
        check_sizes(memory, state)
        rows = getattr(state, "read_rows", None)
        if rows is None or not (has_numbers(rows) and has_numbers(state.read_weights)):
            return
        if rows.device.type == "cpu":  # elsewhere looking at them would wait for the device
            least, most = (int(bound) for bound in rows.aminmax())
            if least < -1 or most >= memory.rows:
                raise ValueError(f"state: expected read_rows in -1..{memory.rows - 1}, got {least}..{most}")
            if bool((state.read_weights < 0).any()):
                raise ValueError(f"state: expected read_weights of at least 0, got {float(state.read_weights.min())}")

    def convert(self, state: State) -> State:
        return converted_state(state, reference_fields)


def reference_fields(state: Any) -> dict[str, Any]:
    """The stores of a state as the reference holds them."""
    fields: dict[str, Any] = {}
    memory, links = getattr(state, "memory", None), getattr(state, "links", None)
    if memory is not None and hasattr(memory, "dense"):
        fields["memory"] = memory.dense()
    if links is not None and hasattr(links, "dense"):
        fields["links"] = links.dense(memory)
    return fields


register(ReferenceEngine())
