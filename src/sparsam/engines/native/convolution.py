"""The layer's causal convolution in the core: two passes over the sequence in place of torch's two dozen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sparsam.engines.native.core import array, tensor
from sparsam.engines.native.core import native as _native
from sparsam.transforms import is_fake, needs_plain_operations


class Convolve(torch.autograd.Function):
    """out_t = bias + sum_j weight[:, j] * in_{t+j}, where `in` is `window` (B, taps - 1, D), then x (T, B, D)."""

    @staticmethod
    def forward(ctx: Any, window: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(window, x, weight)
        run: Any = _native.convolve32 if x.dtype == torch.float32 else _native.convolve64
        out: Tensor = tensor(run(array(window), array(x), array(weight), array(bias), torch.get_num_threads()))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, ...]:
        run: Any = _native.convolve_backward32 if d_out.dtype == torch.float32 else _native.convolve_backward64
        return tuple(map(tensor, run(*map(array, ctx.saved_tensors), array(d_out), torch.get_num_threads())))


def convolve(window: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution; `why_not` has nothing against it."""
    out: Tensor = Convolve.apply(window, x, weight, bias)
    return out


def why_not(window: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    """Why torch's own operations have to run the convolution; None when the core can."""
    if torch.compiler.is_compiling():
        return "it is being traced"
    if needs_plain_operations() or is_fake(x):
        return "its derivative by hand knows no transforms"
    if bias is None:
        return "it has no bias"
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return f"x is {x.dtype} on {x.device}"
    if not x.dtype == window.dtype == weight.dtype == bias.dtype:
        return "its tensors differ in type"
    return None
