"""Location addressing of the NTM (Graves 2014, section 3.3.2): interpolation, 3-tap circular shift, sharpening."""

from __future__ import annotations

import torch
from torch import Tensor

TAPS = 3  # shifts by -1, 0 and +1


def interpolate(gate: Tensor, content: Tensor, previous: Tensor) -> Tensor:
    """Graves 2014, eq. 7: w^g = g w^c + (1 - g) w_{t-1}; gate (B, R), weights (B, R, N)."""
    return torch.lerp(previous, content, gate[..., None])


def shift(weights: Tensor, taps: Tensor) -> Tensor:
    """Graves 2014, eq. 8: w~(i) = sum_j w^g(j) s(i - j), circular in N; taps s (B, R, 3) for shifts -1, 0, +1."""
    back, stay, forth = taps.unsqueeze(-2).unbind(dim=-1)
    return back * weights.roll(-1, dims=-1) + stay * weights + forth * weights.roll(1, dims=-1)


def sharpen(weights: Tensor, exponent: Tensor) -> Tensor:
    """Graves 2014, eq. 9: w(i) = w~(i)^gamma / sum_j w~(j)^gamma; exponent gamma >= 1 (B, R).

    The weights are first divided by their largest, a factor that cancels (so it is a constant for the gradient), and
    the sum can never underflow.
    """
    scaled = weights / weights.detach().amax(dim=-1, keepdim=True)
    powers = scaled.pow(exponent[..., None])
    return powers / powers.sum(dim=-1, keepdim=True)
