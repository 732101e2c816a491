"""Controllers: what sits between a model's input and its memory. One file per kind."""

from __future__ import annotations

from typing import Any

from torch import nn

from sparsam import checks
from sparsam.controllers import feedforward, gru, layer_norm, lstm, own
from sparsam.controllers.kind import KINDS, ControllerKind, kind_of, register

__all__ = ["KINDS", "ControllerKind", "feedforward", "gru", "kind_of", "layer_norm", "lstm", "make", "own", "register"]


def make(
    controller: Any, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any
) -> nn.Module:
    """A controller by name, or the user's own module as it is."""
    if isinstance(controller, nn.Module):
        if num_layers != 1 or dropout:
            raise ValueError("controller: expected a name beside num_layers or dropout, got a module with its own")
        if isinstance(controller, nn.RNNBase) and controller.input_size != input_size:
            raise ValueError(
                f"controller: expected input_size = I + R·W = {input_size}, got one of {controller.input_size}"
            )
        return controller
    if not isinstance(controller, str):
        raise TypeError(f"controller: expected a name or an nn.Module, got {type(controller).__name__}")
    known = [name for name in KINDS if name != "own"]
    kind = KINDS[checks.one_of("controller", controller, known)]
    return kind.make(input_size, hidden_size, num_layers, dropout, **factory)
