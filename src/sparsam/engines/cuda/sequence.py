"""A whole sequence of SAM or SDNC on the GPU as one node of the autograd graph, over `sparsam.engines.cuda.program`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda import program
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.cuda.weights import Weights


@dataclass
class Call:
    """What one call hands to the autograd function beside tensors, and what it leaves there."""

    sizes: Any
    cell: str
    lengths: Tensor | None
    memory: CudaMemory
    links: SparseLinks | None
    after: program.Before | None = None
    run: program.Run | None = field(default=None)


class Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        x: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
        w_interface: Tensor,
        b_interface: Tensor,
        hidden: Tensor,
        cell: Tensor,
        read: Tensor,
        read_rows: Tensor,
        read_weights: Tensor,
        words: Tensor,
    ) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        weights = Weights(w_ih, w_hh, b_ih, b_hh, w_interface, b_interface)
        before = program.Before(hidden, cell, read, read_rows, read_weights, call.memory.detach(), call.links)
        joint, after, run = program.forward(call.sizes, call.cell, x, weights, before, call.lengths)
        call.after, call.run = after, run
        ctx.run = run if any(ctx.needs_input_grad) else None
        ctx.mark_non_differentiable(after.read_rows)
        return joint, *after[:5], after.memory.words

    @staticmethod
    def backward(
        ctx: Any,
        d_joint: Tensor | None,
        d_hidden: Tensor | None,
        d_cell: Tensor | None,
        d_read: Tensor | None,
        _: Any,
        d_read_weights: Tensor | None,
        d_words: Tensor | None,
    ) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the cuda engine has no second derivatives (create_graph=True asks for them); use engine='reference'"
            )
        found = program.backward(ctx.run, d_joint, d_hidden, d_cell, d_read, d_read_weights, d_words)
        assert found.weights is not None
        return (
            None,
            found.x if ctx.needs_input_grad[1] else None,
            *found.weights,
            found.hidden,
            found.cell,
            found.read,
            None,
            found.read_weights,
            found.words if ctx.needs_input_grad[13] else None,
        )
