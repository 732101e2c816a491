"""One step of a native memory for somebody's own controller.

It is what `NativeEngine.steps` does for T = 1, with less around it: the words read last are no argument, since a memory
without a controller does not look at them, and all results come out of one call of the core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.native import stand_ins
from sparsam.engines.native.arrays import Run, array, called, tensor
from sparsam.engines.native.core import native as _native
from sparsam.memories.description import SparseSizes


class StepInputs(NamedTuple):
    """What a step is differentiated with respect to."""

    x: Tensor  # (B, F), the interface vectors before their activation
    read_weights: Tensor  # w^R (B, R, K)
    memory: Tensor | None
    links: Tensor | None


class StepOutputs(NamedTuple):
    """What a step gives; likewise the gradients that come back."""

    read: Tensor  # r (B, R, W)
    read_weights: Tensor
    memory: Tensor | None
    links: Tensor | None


class StepCall(boundary.Call):
    """One step of the core, and what it leaves behind beside the outputs."""

    __slots__ = ("after", "core", "pending", "read_rows", "rows", "sizes", "source", "tape", "versions")
    engine = "native"
    inputs, outputs = StepInputs, StepOutputs

    def __init__(self, sizes: SparseSizes, core: Any, state: Any) -> None:
        self.sizes, self.core = sizes, core
        self.read_rows = state.read_rows
        self.versions = state.memory.for_call()
        self.source = state.memory.pending
        self.pending: Any = None
        self.tape: Any = None
        self.after: Any = None
        self.rows: Tensor | None = None

    def forward(self, inputs: Any, differentiable: bool) -> StepOutputs:
        x, weights = inputs.x, inputs.read_weights
        if weights.dtype != x.dtype:
            raise TypeError(f"read_weights: expected dtype {x.dtype} like x, got {weights.dtype}")
        single = x.dtype == torch.float32
        record, read, rows, now, self.after = called(
            _native.step32 if single else _native.step64,
            self.core,
            array(x),
            array(self.read_rows),
            array(weights),
            self.versions,
            differentiable,
            torch.get_num_threads(),
        )
        self.rows = tensor(rows)
        memory = links = None
        if differentiable:
            self.tape = record
            if self.pending is None:
                self.pending = (_native.Pending32 if single else _native.Pending64)()
            batch, sizes = x.shape[0], self.sizes
            memory = stand_ins.stand_in(x, (batch, sizes.rows, sizes.width))
            if sizes.link_gradients:
                links = stand_ins.stand_in(x, (batch, 2 * sizes.rows + 1, sizes.rows))
        return StepOutputs(tensor(read), tensor(now), memory, links)

    def backward(self, inputs: Any, gradients: Any, needed: Any) -> StepInputs:
        record, self.tape = self.tape, None
        read, weights, memory, links = gradients
        dtype = inputs.x.dtype
        backward_pass = torch._C._current_graph_task_id()
        source = self.source if backward_pass >= 0 else None
        run: Run = _native.step_backward32 if dtype == torch.float32 else _native.step_backward64
        d_x, d_weights, at, words, links_at, links_values = run(
            record,
            array(read),
            array(weights),
            *map(array, stand_ins.parts(memory)),
            *map(array, stand_ins.parts(links)),
            needed.memory,
            self.pending,
            source,
            backward_pass,
            torch.get_num_threads(),
        )
        memory = links = None
        batch, sizes = inputs.x.shape[0], self.sizes
        if needed.memory:
            memory = stand_ins.memory_gradient(source, at, words, (batch, sizes.rows, sizes.width), dtype)
        if needed.links:
            shape = (batch, 2 * sizes.rows + 1, sizes.rows)
            links = stand_ins.sparse_rows(tensor(links_at), tensor(links_values), shape)
        return StepInputs(tensor(d_x), tensor(d_weights), memory, links)
