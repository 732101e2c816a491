"""Prices of writing, of sharp reading and of counting: what need not be kept should not be written, nor looked for.

Recall alone does not teach a write gate to close. Words are compared by their angle, so a word written through a gate
of 0.1 is found as well as a whole one, and in 256 tokens there is room for all of them. A million tokens have room
for what matters only when the rest was not written. The loss is therefore higher by `write` times the mean write gate.

The price pulls at gates that must open as well, for a longer word makes up for a smaller gate. Once the two kinds of
gates are apart (what must be kept at 0.3, say, and the rest at 0.001), `decided` says where: a gate above it costs as
much as it is short of 1, so that open gates open and closed ones close.

Nor does recall say anything about the reads of tokens that are not asked. Sharp ones give a word a weight above delta,
which counts as an access and keeps a row from being written again: with every such read a row of leftovers outlives
what matters. `read` is the price of the mean sharpness, beta - 1; reads that cannot be told apart access nothing.

`count` is the price of a counter's mean gate: one that counts blanks as well says in a long sequence how long it is,
which 256 tokens do not show to be of no use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam import checks
from sparsam.lab.recipes.baselines.count import Count


@dataclass(frozen=True)
class Prices:
    """Of the mean write gate, or above `decided` of what it is short of 1; of the mean sharpness of reads; of the mean
    gate of counters.
    """

    write: float = 0.0
    decided: float = 1.0
    read: float = 0.0
    count: float = 0.0

    def __post_init__(self) -> None:
        checks.number_in("write_decided", self.decided, 0.0, 1.0)

    def of(self, gates: Tensor, strengths: Tensor) -> Tensor:
        """What the loss is higher by, given the interface's write gates and strengths before their sigmoid."""
        gate = gates.sigmoid()
        written = torch.where(gate > self.decided, 1 - gate, gate).mean()
        return self.write * written + self.read * F.softplus(strengths).mean()

    def of_counting(self, gates: Tensor) -> Tensor:
        """The same for counters, given their gates before hard(x)."""
        return self.count * F.hardsigmoid(gates).mean()


class _Charged(torch.autograd.Function):
    """A tensor as it is; its gradient is that of a loss with a price in it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, price: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.price = price
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = (part.detach().requires_grad_() for part in ctx.saved_tensors)
        with torch.enable_grad():
            (more,) = torch.autograd.grad(ctx.price(x), x)
        return gradients[0] + more, None


def charge(mixer: Any, prices: Prices) -> None:
    """Put prices on a `SparseMemory` layer or on counters (`Count`) for as long as they live."""
    heads = getattr(mixer, "num_heads", 0)
    first = {} if isinstance(mixer, Count) else mixer.memory.sizes.interface.offsets()

    def price(x: Tensor) -> Tensor:
        if isinstance(mixer, Count):
            return prices.of_counting(x)
        gates, strengths = (x[..., first[name] : first[name] + heads] for name in ("write_gate", "strength"))
        return prices.of(gates, strengths)

    part = mixer.gate if isinstance(mixer, Count) else mixer.interface
    part.register_forward_hook(lambda _, given, x: _Charged.apply(x, price) if x.requires_grad else x)
