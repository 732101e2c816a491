"""States of `nn.LSTM` and `nn.GRU` in our layout: batch first, and no dimension for a single layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def layers_last(module: Any, carried: Tensor) -> Tensor:
    """(layers, B, H) to (B, H), or (B, layers, H) with several layers."""
    return carried[0] if module.num_layers == 1 else carried.transpose(0, 1)


def layers_first(module: Any, carried: Tensor) -> Tensor:
    """(B, H) or (B, layers, H) to (layers, B, H), as torch takes it."""
    return (carried[None] if module.num_layers == 1 else carried.transpose(0, 1)).contiguous()


def carried_shape(module: Any) -> tuple[int, ...]:
    """The shape of h or c, without the batch dimension."""
    layers, width = module.num_layers, module.hidden_size
    return (width,) if layers == 1 else (layers, width)


def why_not_plain(module: Any) -> str | None:
    """Why a recurrent module is not one layer with biases, forward in time; None when it is."""
    if module.bidirectional:
        raise ValueError("controller: expected one that runs forward in time, got bidirectional=True; a memory that is "
                         "written as it is read has no backward direction")  # fmt: skip
    if getattr(module, "proj_size", 0):
        raise ValueError(f"controller: expected proj_size = 0, got {module.proj_size}")
    if module.num_layers != 1:
        return f"controller has {module.num_layers} layers"
    return None if module.bias else "controller has no biases"
