"""Bypass dropout (`bypass_dropout=p`): the way around the memory is made unreliable, so that the memory gets used.

Franke, Niehues and Waibel 2018, "Robust and Scalable Differentiable Neural Computer for Question Answering":
dropout on the controller's direct connection to the output layer, and nowhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsam import checks


class BypassDropout(nn.Module):
    """[h_t, r_t] (..., H + R·W) as the output layer sees it: parts of h_t zeroed at random during training."""

    def __init__(self, hidden_size: int, p: float) -> None:
        super().__init__()
        self.hidden_size, self.p = hidden_size, checks.number_in("bypass_dropout", p, 0.0, 1.0)

    def forward(self, joint: Tensor) -> Tensor:
        if not self.p or not self.training:
            return joint
        hidden, read = joint[..., : self.hidden_size], joint[..., self.hidden_size :]
        return torch.cat([F.dropout(hidden, self.p), read], dim=-1)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class BypassOutput(nn.Linear):
    """The output layer with bypass dropout before it; parameters are those of an `nn.Linear`."""

    def __init__(self, p: float, hidden_size: int, read_size: int, output_size: int, **factory: Any) -> None:
        super().__init__(hidden_size + read_size, output_size, **factory)
        self.bypass = BypassDropout(hidden_size, p)

    @property
    def options(self) -> dict[str, Any]:
        return {"bypass_dropout": self.bypass.p}

    def forward(self, joint: Tensor) -> Tensor:
        return super().forward(self.bypass(joint))


def bypass_output(bypass_dropout: float) -> Callable[..., nn.Module] | None:
    """A function that makes the output layer for a model's argument `bypass_dropout`; None for a plain one."""
    p = checks.number_in("bypass_dropout", bypass_dropout, 0.0, 1.0)
    return functools.partial(BypassOutput, p) if p else None
