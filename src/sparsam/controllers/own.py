"""A user's own controller: any `nn.Module` behind two methods.

    class MyController(nn.Module):
        output_size = 64                           # H; `hidden_size` of the model where it is absent
        def initial_state(self, batch_size): ...   # tensors with the batch first, in any nesting of tuples and dicts
        def forward(self, x, state): ...           # x (B, I + R·W) and a state; returns h (B, H) and the next state

A module without `initial_state` carries nothing from step to step and is called as `h = module(x)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from sparsam.controllers.kind import ControllerKind, register


class OwnKind(ControllerKind):
    """States carry what the module hands over, in `controller`."""

    name = "own"
    module = nn.Module

    def make(self, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any) -> nn.Module:
        raise ValueError("controller: expected your own nn.Module where its kind is 'own', got only the name")

    def output_size(self, module: Any, hidden_size: int) -> int:
        width = getattr(module, "output_size", hidden_size)
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ValueError(f"controller.output_size: expected a positive int, got {width!r}")
        return width

    def carries(self, module: Any) -> dict[str, Callable[[int], Any]]:
        return {"controller": module.initial_state} if hasattr(module, "initial_state") else {}

    def step(self, module: Any, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        if not hasattr(module, "initial_state"):
            return checked(module(x), module, x), {}
        result = module(x, state.controller)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"controller: expected {type(module).__name__}.forward(x, state) to return (h, state), "
                f"got {type(result).__name__}"
            )
        return checked(result[0], module, x), {"controller": result[1]}


def checked(hidden: Any, module: Any, x: Tensor) -> Tensor:
    """h_t when it is a tensor (B, H)."""
    if not isinstance(hidden, Tensor) or hidden.dim() != 2 or hidden.shape[0] != x.shape[0]:
        got = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
        raise ValueError(f"controller: expected h of shape (B, H) with B = {x.shape[0]}, got {got}")
    return hidden


register(OwnKind())
