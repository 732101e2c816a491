"""Channels that count tokens, exactly, however many others come between them.

    n_t = n_(t-1) + i_t,   i_t = hard(I z_t),   hard(x) = min(max(x / 6 + 1/2, 0), 1)

z is a short convolution of the input, and a gate i is exactly 0 or exactly 1 where it is within `GAP` of it (gradients
pass as if it were not). What goes on is the sine and the cosine of a n, with a step a for each channel that is learned:
channels say how many tokens of their kind there were as the positions of a Transformer do. There is nothing else that
could be carried on: a memory behind it has to write an item when it is there, where behind the recurrence of `hold` it
writes the last one again at every blank.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsam.lab.recipes.baselines.convolution import ShortConvolution
from sparsam.lab.recipes.baselines.hold import or_nothing

GAP = 0.1


class CountState(NamedTuple):
    """n (B, D), and the convolution's last inputs."""

    counted: Tensor
    recent: Tensor


class Count(nn.Module):
    """The counters above; the output is a linear map of sin a n, cos a n and z.

    `input_bias`: between which numbers the gates' first biases are drawn; a gate is shut from -3 down.
    """

    def __init__(self, width: int, conv: int = 4, input_bias: tuple[float, float] = (-3.5, -1.0)) -> None:
        super().__init__()
        self.width = width
        self.conv = ShortConvolution(width, conv)
        self.gate = nn.Linear(width, width)
        self.step = nn.Parameter(torch.exp(torch.linspace(math.log(0.1), math.log(3.0), width)))  # 2 to 60 a turn
        self.output = nn.Linear(3 * width, width)
        nn.init.uniform_(self.gate.bias, *input_bias)

    def forward(self, x: Tensor, state: CountState | None = None) -> tuple[Tensor, CountState]:
        z, recent = self.conv(x, None if state is None else state.recent)
        gate = or_nothing(1 - or_nothing(1 - F.hardsigmoid(self.gate(z)), GAP), GAP)
        start = x.new_zeros(x.shape[1:]) if state is None else state.counted
        counted = start + gate.cumsum(0)
        angle = self.step * counted
        return self.output(torch.cat([angle.sin(), angle.cos(), z], -1)), CountState(counted[-1], recent)
