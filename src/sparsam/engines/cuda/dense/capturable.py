"""Running products in a form that a CUDA graph can capture: torch's own gradient asks the device whether one is 0."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Cumprod(torch.autograd.Function):
    """`torch.cumprod` over the last dimension: d x(i) = sum_{k >= i} g(k) prod_{j <= k, j != i} x(j).

    All N^2 products of neighbours are there at once.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        products = torch.cumprod(x, -1)
        ctx.save_for_backward(x, products)
        return products

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x, products = ctx.saved_tensors
        size = x.shape[-1]
        after = torch.ones(size, size, dtype=torch.bool, device=x.device).triu(1)  # k > i
        between = torch.where(after, x[..., None, :], 1.0).cumprod(-1)  # prod of x(j) for i < j <= k
        tail = (between * gradient[..., None, :]).masked_fill(after.mT, 0.0).sum(-1)
        return torch.cat([torch.ones_like(x[..., :1]), products[..., :-1]], dim=-1) * tail


class Capturable(torch.overrides.TorchFunctionMode):
    """Replaces `cumprod` over a dimension."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if len(given) == 2 and function in (torch.cumprod, Tensor.cumprod):
            return Cumprod.apply(given[0].movedim(given[1], -1)).movedim(-1, given[1])
        return function(*args, **(kwargs or {}))
