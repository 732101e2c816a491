"""A linear map of all steps in the core, y = [a, b] W^T + bias, where a and b need not be joined first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sparsam.controllers.kind import why_changed_linear
from sparsam.engines.boundary import refuse_batched
from sparsam.engines.native.core import array, tensor
from sparsam.engines.native.core import native as _native
from sparsam.transforms import is_fake, needs_plain_operations

__all__ = ["linear", "why_not"]

MOST = 2**18  # weights: more do not stay in a core's second-level cache, and torch's products are made for that


class Linear(torch.autograd.Function):
    """y (n, O) of a (n, D_a) and b (n, D_b) or None; gradients of what asks for one."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, weight)
        run: Any = _native.linear32 if a.dtype == torch.float32 else _native.linear64
        out: Tensor = tensor(run(*map(array, (a, b, weight, bias)), torch.get_num_threads()))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        refuse_batched("native", (d_out,))
        run: Any = _native.linear_backward32 if d_out.dtype == torch.float32 else _native.linear_backward64
        needs_a, needs_b, needs_weight, needs_bias = ctx.needs_input_grad
        needs = (needs_a, needs_b, needs_weight or needs_bias)
        found = run(*map(array, (*ctx.saved_tensors, d_out)), *needs, torch.get_num_threads())
        return tuple(map(tensor, found))


def linear(layer: nn.Linear, a: Tensor, b: Tensor | None = None) -> Tensor:
    """`layer` on [a, b] (T, B, D_a + D_b); `why_not` has nothing against it."""
    flat = None if b is None else b.flatten(0, 1)
    out: Tensor = Linear.apply(a.flatten(0, 1), flat, layer.weight, layer.bias)
    return out.view(*a.shape[:2], layer.weight.shape[0])


def why_not(name: str, layer: nn.Module, *inputs: Tensor) -> str | None:
    """Why the layer has to be called; None when the core can run it."""
    if torch.compiler.is_compiling():
        return "it is being traced"
    if needs_plain_operations() or any(map(is_fake, inputs)):
        return "its derivative by hand knows no transforms"
    reason = why_changed_linear(name, layer)
    if reason is not None:
        return reason
    weight: Any = layer.weight
    if weight.numel() > MOST:
        return f"{name} has {weight.numel():,} weights"
    if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.float64):
        return f"{name} is {weight.dtype} on {weight.device}"
    if any(value.numel() == 0 for value in inputs):
        return "there are no rows"
    if torch.is_autocast_enabled("cpu") or any(value.dtype != weight.dtype for value in inputs):
        return "its tensors differ in type"
    return None
