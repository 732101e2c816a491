"""The feed-forward controller: h_t = tanh(W [x_t, r_{t-1}] + b). Nothing recurs but the memory."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from sparsam import checks
from sparsam.controllers.kind import ControllerKind, register, why_changed_linear


class FeedForward(nn.Module):
    """Layers of a linear map and a tanh, dropout between them."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0, **factory: Any
    ) -> None:
        super().__init__()
        widths = [input_size, *[hidden_size] * num_layers]
        self.layers = nn.ModuleList(nn.Linear(a, b, **factory) for a, b in itertools.pairwise(widths))
        self.dropout = nn.Dropout(dropout)
        self.output_size, self.num_layers = hidden_size, num_layers

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x if i == 0 else self.dropout(x)))
        return x


class FeedForwardKind(ControllerKind):
    """It carries nothing from step to step."""

    name = "feedforward"
    module = FeedForward
    fused = "feedforward"

    def make(self, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any) -> nn.Module:
        if dropout and num_layers == 1:  # as nn.LSTM says it
            warnings.warn(
                f"dropout: expected 0 with one layer, as it acts between layers, got {dropout}",
                stacklevel=checks.callers_level(),
            )
        return FeedForward(input_size, hidden_size, num_layers, dropout, **factory)

    def output_size(self, module: Any, hidden_size: int) -> int:
        return int(module.output_size)

    def step(self, module: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        return module(x), {}

    def why_not_fused(self, module: Any) -> str | None:
        touched = super().why_not_fused(module)
        if touched is None and len(module.layers) > 1:
            return f"a feed-forward controller of {len(module.layers)} layers is called step by step"
        return touched or why_changed_linear("controller.layers[0]", module.layers[0])

    def places(self, module: Any) -> tuple[tuple[nn.Module, str], ...]:
        return (module.layers[0], "weight"), (module.layers[0], "bias")


register(FeedForwardKind())
