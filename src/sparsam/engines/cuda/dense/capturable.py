"""Products along a dimension in a form that a CUDA graph can capture: the gradients of torch's ask the device.

On a GPU the gradients are one kernel each; where there is no Triton they are written out in torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda import TRITON_IS_THERE, interpreted
from sparsam.engines.cuda.layout import power_of_two

MOST_ELEMENTS = 65536  # of a row that one program goes over
MOST_FACTORS = 16  # that a kernel is written out for
BLOCK = 256


def has_kernel(x: Tensor, largest: int, most: int) -> bool:
    """Whether the gradient of products of x is taken by a kernel."""
    if not (x.is_cuda or interpreted()) or largest > most:
        return False
    return TRITON_IS_THERE


class Cumprod(torch.autograd.Function):
    """`torch.cumprod` over the last dimension. Torch's own gradient asks the device whether a factor is 0.

    d x(i) = sum_{k >= i} g(k) prod_{j <= k, j != i} x(j); in torch with all N^2 products of neighbours at once.
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
        if has_kernel(x, size, MOST_ELEMENTS):
            from sparsam.engines.cuda.dense.kernels.running_products import cumprod_backward

            x, products, gradient = x.contiguous(), products.contiguous(), gradient.contiguous()
            found, block = torch.empty_like(x), power_of_two(size)
            warps = min(max(block // 256, 1), 16)
            cumprod_backward[(x.numel() // size,)](x, products, gradient, found, size, BLOCK=block, num_warps=warps)
            return found
        after = torch.ones(size, size, dtype=torch.bool, device=x.device).triu(1)  # k > i
        between = torch.where(after, x[..., None, :], 1.0).cumprod(-1)  # prod of x(j) for i < j <= k
        tail = (between * gradient[..., None, :]).masked_fill(after.mT, 0.0).sum(-1)
        return torch.cat([torch.ones_like(x[..., :1]), products[..., :-1]], dim=-1) * tail


class Prod(torch.autograd.Function):
    """`torch.prod` over the dimension before the last: d x(h, i) = g(i) prod_{j != h} x(j, i)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.prod(x, -2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        factors, size = x.shape[-2:]
        if has_kernel(x, factors, MOST_FACTORS):
            from sparsam.engines.cuda.dense.kernels.running_products import prod_backward

            x, gradient = x.contiguous(), gradient.contiguous()
            found, grid = torch.empty_like(x), (x.numel() // (factors * size), -(-size // BLOCK))
            prod_backward[grid](x, gradient, found, size, R=factors, BLOCK=BLOCK)
            return found
        itself = torch.eye(factors, dtype=torch.bool, device=x.device)[..., None]
        return gradient[..., None, :] * torch.where(itself, 1.0, x[..., None, :, :]).prod(-2)


class Capturable(torch.overrides.TorchFunctionMode):
    """Replaces what cannot be captured: the gradients of `cumprod` and `prod` over a dimension."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        if len(given) == 2 and function in (torch.cumprod, Tensor.cumprod):
            return Cumprod.apply(given[0].movedim(given[1], -1)).movedim(-1, given[1])
        if len(given) == 2 and function in (torch.prod, Tensor.prod):
            x, dim = given[0], given[1] % given[0].dim()
            factors = x if dim == x.dim() - 2 else x.movedim(dim, -1)[..., None]
            return Prod.apply(factors).reshape(x.shape[:dim] + x.shape[dim + 1 :])
        return function(*args, **(kwargs or {}))
