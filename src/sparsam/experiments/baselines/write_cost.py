"""A price of writing: what a memory need not keep it should not write.

Recall alone does not teach a write gate to close. Words are compared by their angle, so a word written through a gate
of 0.1 is found as well as a whole one, and in 256 tokens there is room for all of them. A million tokens have room
for what matters only when the rest was not written. The loss is therefore higher by `cost` times the mean write gate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Charged(torch.autograd.Function):
    """The interface vectors as they are; the gradient of the write gates is that of a loss with their price in it."""

    @staticmethod
    def forward(ctx: Any, interface: Tensor, first: int, heads: int, cost: float) -> Tensor:
        ctx.first, ctx.heads, ctx.cost = first, heads, cost
        ctx.save_for_backward(interface[..., first : first + heads].sigmoid())
        return interface.view_as(interface)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gate,) = ctx.saved_tensors
        gradient = gradients[0].clone()
        gradient[..., ctx.first : ctx.first + ctx.heads] += ctx.cost / gate.numel() * gate * (1 - gate)
        return gradient, None, None, None


def charge_for_writing(memory: Any, cost: float) -> None:
    """Put a price on the write gates of a `SparseMemory` layer for as long as it lives."""
    heads = memory.num_heads
    first = memory.memory.sizes.interface.offsets()["write_gate"]
    memory.interface.register_forward_hook(
        lambda _, given, interface: (
            _Charged.apply(interface, first, heads, cost) if interface.requires_grad else interface
        )
    )
