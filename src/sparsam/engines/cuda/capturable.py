"""Products along a dimension in a form that a CUDA graph can capture: the gradients of torch's ask the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Cumprod(torch.autograd.Function):
    """`torch.cumprod` over the last dimension. Torch's own gradient asks the device whether a factor is 0.

    d x(i) = sum_{k >= i} g(k) prod_{j <= k, j != i} x(j), with all N^2 products of neighbours at once.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.cumprod(x, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        size = x.shape[-1]
        after = torch.ones(size, size, dtype=torch.bool, device=x.device).triu(1)  # k > i
        products = torch.where(after, x[..., None, :], 1.0).cumprod(-1)  # prod of x(j) for i < j <= k
        tail = (products * gradient[..., None, :]).masked_fill(after.mT, 0.0).sum(-1)
        before = torch.cumprod(torch.cat([torch.ones_like(x[..., :1]), x[..., :-1]], dim=-1), -1)
        return before * tail


class Capturable(torch.overrides.TorchFunctionMode):
    """Replaces what cannot be captured: the gradients of `cumprod` and `prod` over a dimension."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if len(given) == 2 and function in (torch.cumprod, Tensor.cumprod):
            return Cumprod.apply(given[0].movedim(given[1], -1)).movedim(-1, given[1])
        if len(given) == 2 and function in (torch.prod, Tensor.prod):
            return Cumprod.apply(given[0].movedim(given[1], -1))[..., -1]
        return function(*args, **(kwargs or {}))
