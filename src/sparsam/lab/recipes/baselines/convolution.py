"""The short convolution in front of a mixer: each channel sees its own last few values.

    y_t = sum_i w_i * x_(t-i),   i = 0 .. taps - 1, channel by channel

It lets a step see the token before it, which associative recall needs (a value must be stored under the key that came
just before) and which neither attention without positions nor a memory without a controller has by itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ShortConvolution(nn.Module):
    """Causal depthwise convolution of `taps` steps. The state holds the last `taps` - 1 inputs."""

    def __init__(self, width: int, taps: int = 4) -> None:
        super().__init__()
        if taps < 1:
            raise ValueError(f"taps: expected at least 1, got {taps}")
        self.width, self.taps = width, taps
        self.weight = nn.Parameter(torch.empty(width, 1, taps))
        nn.init.uniform_(self.weight, -(taps**-0.5), taps**-0.5)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (T, B, D) to the same shape."""
        before = x.new_zeros(self.taps - 1, *x.shape[1:]) if state is None else state
        padded = torch.cat([before, x])
        y = F.conv1d(padded.permute(1, 2, 0), self.weight, groups=self.width).permute(2, 0, 1)
        return y, padded[len(padded) - self.taps + 1 :]
