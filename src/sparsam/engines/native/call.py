"""One call of the core, and its backward pass: a sequence with a controller or without, or one step of a memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import Inputs, Outputs, inputs_of
from sparsam.engines.native import placeholders
from sparsam.engines.native.core import array, takes_tensors, tensor
from sparsam.engines.native.core import native as _native
from sparsam.memories.description import SparseSizes
from sparsam.trace import READ, WRITE, Access


class NativeCall(boundary.Call):
    """A run of the core, and what it leaves behind beside the outputs."""

    __slots__ = (
        *(
            "accesses",
            "after",
            "clip",
            "controller",
            "core",
            "ends",
            "hidden_size",
            "pending",
            "read_rows",
            "record",
            "rows",
        ),
        *("sizes", "source", "tape", "versions"),
    )
    engine = "native"

    def __init__(
        self,
        sizes: SparseSizes,
        core: Any,
        controller: str,
        hidden_size: int,
        clip: float,
        state: Any,
        ends: Tensor | None,
        record: bool,
    ) -> None:
        """`core` are the core's `Sizes`, `controller` is its name there; `ends` (B,) are lengths in 0..T."""
        self.sizes, self.core, self.hidden_size, self.record = sizes, core, hidden_size, record
        self.controller = controller
        self.clip = clip  # limits what flows backward (csrc/step/backward_clip.h); 0 for exact gradients
        self.read_rows = state.read_rows
        self.ends = None if ends is None else ends.numpy()
        self.versions = state.memory.for_call()
        self.source = state.memory.pending  # where the gradient of the memory goes
        self.pending: Any = None  # where that of the memory left comes from
        self.tape: Any = None
        self.after: Any = None
        self.rows: Tensor | None = None
        self.accesses: Any = ()

    def forward(self, inputs: Any, differentiable: bool) -> Outputs:
        x: Tensor = inputs.x
        dtype = x.dtype
        given: list[Any] = []
        for value in inputs[:STORES]:
            if value is not None:
                if value.dtype != dtype:
                    name = Inputs._fields[len(given)]
                    raise TypeError(f"{name}: expected dtype {dtype} like x, got {value.dtype}")
                if not takes_tensors or not value.is_contiguous() or value.is_neg():
                    value = array(value)
            given.append(value)
        if x.dim() == 2:
            given[0] = given[0][None]
        rows = self.read_rows if takes_tensors and self.read_rows.is_contiguous() else array(self.read_rows)
        try:
            run: Any = _native.forward32 if dtype == torch.float32 else _native.forward64
            record = run(
                self.core,
                self.sizes.kind,
                self.controller,
                self.hidden_size,
                *given,
                rows,
                self.ends,
                self.versions,
                differentiable,
                self.record,
                torch.get_num_threads(),
            )
        except ValueError as error:  # what the core says of the rows read last is said of the state
            for ours, theirs in (("rows0", "read_rows"), ("weights0", "read_weights")):
                if str(error).startswith(ours):
                    raise ValueError(f"state: {str(error).replace(ours, theirs)}") from None
            raise
        joint, hidden, inner, read, weights, rows, self.after = record.outputs()
        if not takes_tensors:
            joint, hidden, inner, read, weights, rows = map(tensor, (joint, hidden, inner, read, weights, rows))
        self.rows = rows
        if self.record:
            self.accesses = recorded_accesses(record.trace)
        memory = links = None
        if differentiable:
            self.tape = record
            self.versions = record.versions_before
            if self.pending is None:
                self.pending = (_native.Pending32 if dtype == torch.float32 else _native.Pending64)()
            batch, sizes, zero = x.shape[-2], self.sizes, placeholders.zero(dtype)
            memory = zero.expand(batch, sizes.rows, sizes.width)
            if sizes.link_gradients:
                links = zero.expand(batch, 2 * sizes.rows + 1, sizes.rows)
        return Outputs(joint, hidden, inner, read, weights, memory, links)

    def backward(self, inputs: Any, gradients: Any, needed: Any) -> Inputs:
        record, self.tape = self.tape, None
        x = inputs.x
        backward_pass = torch._C._current_graph_task_id()
        source = self.source if backward_pass >= 0 else None
        run: Any = _native.backward32 if x.dtype == torch.float32 else _native.backward64
        found = run(
            record,
            array(x[None] if x.dim() == 2 else x),
            *map(array, inputs[1:CARRIED]),
            *map(array, gradients[:5]),
            *map(array, placeholders.parts(gradients.memory)),
            *map(array, placeholders.parts(gradients.links)),
            bool(needed.x),
            torch.get_num_threads(),
            bool(needed.memory),
            self.pending,
            source,
            backward_pass,
            self.clip,
        )
        *floats, at, words, links_at, links_values = found.outputs()
        d_x, *floats = map(tensor, floats)
        if x.dim() == 2:
            d_x = d_x[0]
        if gradients.joint is None:  # nobody used y: an output layer that was not used has no gradient, as in torch
            floats[OUTPUT - 1 : CARRIED - 1] = None, None
        memory = links = None
        batch, sizes = x.shape[-2], self.sizes
        if needed.memory:
            memory = placeholders.memory_gradient(source, at, words, (batch, sizes.rows, sizes.width), x.dtype)
        if needed.links:
            shape = (batch, 2 * sizes.rows + 1, sizes.rows)
            links = placeholders.sparse_rows(tensor(links_at), tensor(links_values), shape)
        return inputs_of(d_x, *floats, memory, links)  # type: ignore[no-any-return]


OUTPUT, CARRIED, STORES = map(Inputs._fields.index, ("w_output", "hidden", "memory"))


def recorded_accesses(trace: tuple[Any, ...]) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, over all steps."""
    read_rows, read_weights, write_rows, write_weights = map(torch.from_numpy, trace)
    return [Access(WRITE, 0, write_rows, write_weights), Access(READ, 0, read_rows, read_weights)]
