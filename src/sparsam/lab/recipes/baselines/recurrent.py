"""Mixers that carry a hidden state from step to step: an LSTM, and SAM with its LSTM controller.

SAM stands behind the same short convolution as the others, so that it need not learn to hold a key in its controller
until the value comes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

import sparsam
from sparsam.lab.recipes.baselines.convolution import ShortConvolution


class LSTM(nn.Module):
    """`nn.LSTM` of the model's width, or of `hidden_size` units with a linear map back to the width."""

    def __init__(self, width: int, hidden_size: int | None = None) -> None:
        super().__init__()
        units = width if hidden_size is None else hidden_size
        self.cell = nn.LSTM(width, units)
        self.output = None if units == width else nn.Linear(units, width)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.cell(x, state)
        return (y if self.output is None else self.output(y)), state


class SAMState(NamedTuple):
    """SAM's own state, and the convolution's last inputs."""

    model: Any
    recent: Tensor


class SAM(nn.Module):
    """`sparsam.SAM` over a short convolution; `settings` are its arguments besides input and output size."""

    def __init__(self, width: int, conv: int = 4, **settings: Any) -> None:
        super().__init__()
        self.conv = ShortConvolution(width, conv)
        self.model = sparsam.SAM(width, width, **settings)

    def forward(self, x: Tensor, state: SAMState | None = None) -> tuple[Tensor, SAMState]:
        mixed, recent = self.conv(x, None if state is None else state.recent)
        y, after = self.model(mixed, None if state is None else state.model)
        return y, SAMState(after, recent)
