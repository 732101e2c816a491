"""A linear recurrence whose gates can be exactly 0 and 1, so that it can hold something for any number of steps.

    h_t = f_t h_(t-1) + i_t u_t,   f_t = hard(F z_t),   i_t = hard(I z_t),   hard(x) = min(max(x / 6 + 1/2, 0), 1)

z is a short convolution of the input and u = U z. Gates depend on the input alone, as in Mamba. There a gate comes
close to 1 and what is held fades, by a factor e after 10,000 steps with 0.9999; a hard gate that is fully open keeps
every bit. With f = 1 and i = 1 at some tokens and 0 at the others, h counts those tokens. What goes on is sin h and
cos h: channels that count in steps of different size say how many there were as the positions of a Transformer do.

Nothing in 256 tokens tells an input of 0.0004 at every blank, or a gate of 0.995, from none and from 1; in a million
it decides. So there is a gap between nothing and something: what is forgotten (1 - f) and what is added (i u) is 0
where it is less than `FORGOTTEN` and `ADDED`. Gradients pass as if it were not there. What is left drifts or fades so
fast that 256 tokens show it to be of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsam.lab.recipes.baselines.convolution import ShortConvolution

FORGOTTEN, ADDED = 0.1, 0.03


def or_nothing(x: Tensor, least: float) -> Tensor:
    """x where it is at least `least` in size and 0 elsewhere, with the gradient of x."""
    return x + (F.hardshrink(x.detach(), least) - x.detach()) if least else x


def recurrence(gates: Tensor, values: Tensor, start: Tensor) -> Tensor:
    """h_t = gates_t h_(t-1) + values_t for all t at once, given h_0, by doubling: ceil(log2 T) passes over the whole.

    After the pass of span s, step t holds what the last 2s steps did: h_t = gates h_(t-2s) + values.
    """
    values = torch.cat([torch.addcmul(values[:1], gates[:1], start), values[1:]])
    span = 1
    while span < len(values):
        late = torch.addcmul(values[span:], gates[span:], values[:-span])
        gates = torch.cat([gates[:span], gates[span:] * gates[:-span]])
        values = torch.cat([values[:span], late])
        span *= 2
    return values


class HoldState(NamedTuple):
    """h (B, D), and the convolution's last inputs."""

    held: Tensor
    recent: Tensor


class Hold(nn.Module):
    """The recurrence above, channel by channel; its output is a linear map of sin h, cos h and z.

    `input_bias`: between which numbers the input gate's first biases are drawn. The gate is shut from -3 down. Drawn
    around 0 it was shut in no channel for blanks after 550 minibatches of selective copying, and what small inputs add
    up to over a million blanks is any angle. `gaps`: `FORGOTTEN` and `ADDED`; 0 for none.
    """

    def __init__(
        self,
        width: int,
        conv: int = 4,
        input_bias: Sequence[float] = (-3.5, -1.0),
        gaps: Sequence[float] = (FORGOTTEN, ADDED),
    ) -> None:
        super().__init__()
        self.width, self.gaps = width, tuple(gaps)
        self.conv = ShortConvolution(width, conv)
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(3 * width, width)
        with torch.no_grad():
            self.project.bias[:width].uniform_(1.0, 4.0)  # f begins between 2/3 and 1, in a third of the channels at 1
            self.project.bias[width : 2 * width].uniform_(*input_bias)
            self.project.weight[2 * width :] *= 0.5  # small steps: dozens of tokens turn h by about once at first
            self.project.bias[2 * width :] = 0

    def forward(self, x: Tensor, state: HoldState | None = None) -> tuple[Tensor, HoldState]:
        z, recent = self.conv(x, None if state is None else state.recent)
        keep, take, new = self.project(z).chunk(3, -1)
        kept = 1 - or_nothing(1 - F.hardsigmoid(keep), self.gaps[0])
        added = or_nothing(F.hardsigmoid(take) * new, self.gaps[1])
        start = x.new_zeros(x.shape[1:]) if state is None else state.held
        angle = recurrence(kept, added, start)
        return self.output(torch.cat([angle.sin(), angle.cos(), z], -1)), HoldState(angle[-1], recent)
