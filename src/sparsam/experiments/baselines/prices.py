"""Prices of writing and of sharp reading: what a memory need not keep it should not write, nor look for.

Recall alone does not teach a write gate to close. Words are compared by their angle, so a word written through a gate
of 0.1 is found as well as a whole one, and in 256 tokens there is room for all of them. A million tokens have room
for what matters only when the rest was not written. The loss is therefore higher by `write` times the mean write gate.

The price pulls at gates that must open as well, for a longer word makes up for a smaller gate. Once the two kinds of
gates are apart (what must be kept at 0.3, say, and the rest at 0.001), `decided` says where: a gate above it costs as
much as it is short of 1, so that open gates open and closed ones close.

Nor does recall say anything about the reads of tokens that are not asked. Sharp ones give a word a weight above delta,
which counts as an access and keeps a row from being written again: with every such read a row of leftovers outlives
what matters. `read` is the price of the mean sharpness, beta - 1; reads that cannot be told apart access nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam import checks


@dataclass(frozen=True)
class Prices:
    """Of the mean write gate, or above `decided` of what it is short of 1; and of the mean sharpness of reads."""

    write: float = 0.0
    decided: float = 1.0
    read: float = 0.0

    def __post_init__(self) -> None:
        checks.number_in("write_decided", self.decided, 0.0, 1.0)

    def of(self, gates: Tensor, strengths: Tensor) -> Tensor:
        """What the loss is higher by, given the interface's write gates and strengths before their sigmoid."""
        gate = gates.sigmoid()
        written = torch.where(gate > self.decided, 1 - gate, gate).mean()
        return self.write * written + self.read * F.softplus(strengths).mean()


class _Charged(torch.autograd.Function):
    """The interface vectors as they are; their gradient is that of a loss with the prices in it."""

    @staticmethod
    def forward(ctx: Any, interface: Tensor, gates: slice, strengths: slice, prices: Prices) -> Tensor:
        ctx.gates, ctx.strengths, ctx.prices = gates, strengths, prices
        ctx.save_for_backward(interface[..., gates], interface[..., strengths])
        return interface.view_as(interface)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gates, strengths = (part.detach().requires_grad_() for part in ctx.saved_tensors)
        with torch.enable_grad():
            more = torch.autograd.grad(ctx.prices.of(gates, strengths), (gates, strengths))
        gradient = gradients[0].clone()
        gradient[..., ctx.gates] += more[0]
        gradient[..., ctx.strengths] += more[1]
        return gradient, None, None, None


def charge(memory: Any, prices: Prices) -> None:
    """Put prices on the writes and reads of a `SparseMemory` layer for as long as it lives."""
    heads, first = memory.num_heads, memory.memory.sizes.interface.offsets()
    gates, strengths = (slice(first[name], first[name] + heads) for name in ("write_gate", "strength"))
    memory.interface.register_forward_hook(
        lambda _, given, interface: (
            _Charged.apply(interface, gates, strengths, prices) if interface.requires_grad else interface
        )
    )
