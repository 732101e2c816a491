"""Placeholders of native memories in the autograd graph: tensors of the memory's shape without storage.

Their gradients are sparse: rows and words, never N times W numbers. Between two calls of the core the gradient is an
empty one, and the rows stay in the core (`Pending` of csrc/memory/gradients.h): autograd decides which call
comes next, and the rows are there when it runs.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def placeholder(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of zeros with the storage of one number: what a memory (B, N, W) is in the autograd graph."""
    return zero(like.dtype).expand(shape)


@functools.lru_cache(maxsize=8)
def zero(dtype: torch.dtype) -> Tensor:
    return torch.zeros((), dtype=dtype)


@functools.lru_cache(maxsize=64)
def nothing(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The gradient that goes through autograd where the rows stay in the core."""
    at = torch.zeros(2, 0, dtype=torch.int64)
    return sparse_rows(at, torch.zeros(0, *shape[2:], dtype=dtype), shape)


def sparse_rows(at: Tensor, words: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A sparse tensor of whole words: `at` (dimensions, n) names them, `words` is (n, W)."""
    return torch.sparse_coo_tensor(at, words, shape, check_invariants=False, device="cpu")


def memory_gradient(source: Any, at: Any, words: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """What a call hands to autograd: the core's rows, or nothing where they were left in `source`."""
    if source is not None:
        return nothing(shape, dtype)
    return sparse_rows(torch.from_numpy(at), torch.from_numpy(words), shape)


def parts(gradient: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Indices and values of a gradient, a dense one too. Rows may come twice: the core adds them up."""
    if gradient is None:
        return None, None
    if not gradient.is_sparse:
        gradient = gradient.to_sparse(2)
    if gradient._nnz() == 0:
        return None, None
    return gradient._indices().contiguous(), gradient._values().contiguous()


def of_elements(gradient: Tensor, mask: Tensor) -> Tensor:
    """What a sparse gradient says of those batch elements where `mask` (B,) holds."""
    gradient = gradient.coalesce()
    keep = mask[gradient.indices()[0]]
    return sparse_rows(gradient.indices()[:, keep], gradient.values()[keep], tuple(gradient.shape))


class Begin(torch.autograd.Function):
    """From a user's initial memory (N, W) or (B, N, W) to the placeholder; a leaf gets a sparse gradient."""

    @staticmethod
    def forward(ctx: Any, memory: Tensor, batch: int, leaf: bool) -> Tensor:
        ctx.shape, ctx.leaf = tuple(memory.shape), leaf
        return placeholder(memory, (batch, *memory.shape[-2:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        gradient = gradient.coalesce()
        at = gradient.indices()
        if len(ctx.shape) == 2:  # one memory shared by the batch
            at = at[1:]
        gradient = sparse_rows(at, gradient.values(), ctx.shape).coalesce()
        # Operations that made the memory expect a dense gradient; a leaf accumulates sparse ones.
        return gradient if ctx.leaf else gradient.to_dense(), None, None


class FromDense(torch.autograd.Function):
    """From all words (B, N, W) of a dense memory to the placeholder."""

    @staticmethod
    def forward(ctx: Any, words: Tensor) -> Tensor:
        return placeholder(words, tuple(words.shape))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.to_dense()


class ToDense(torch.autograd.Function):
    """From the placeholder to all words (B, N, W), whose numbers are given."""

    @staticmethod
    def forward(ctx: Any, held: Tensor, words: Tensor) -> Tensor:
        return words.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to_sparse(2), None


class Cast(torch.autograd.Function):
    """The placeholder in another floating-point type."""

    @staticmethod
    def forward(ctx: Any, held: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtype = held.dtype
        return placeholder(torch.empty((), dtype=dtype, device="cpu"), tuple(held.shape))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None


class Choose(torch.autograd.Function):
    """Per batch element one of two placeholders: its gradient goes to the memory that it came from."""

    @staticmethod
    def forward(ctx: Any, mask: Tensor, where_true: Tensor | None, where_false: Tensor | None, like: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return placeholder(like, tuple(like.shape))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (mask,) = ctx.saved_tensors
        sides = ((mask, ctx.needs_input_grad[1]), (~mask, ctx.needs_input_grad[2]))
        return None, *(of_elements(gradient, side) if needed else None for side, needed in sides), None


class Select(torch.autograd.Function):
    """Some batch elements of a placeholder, some of them perhaps more than once."""

    @staticmethod
    def forward(ctx: Any, held: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.batch = held.shape[0]
        return placeholder(held, (index.numel(), *held.shape[1:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        gradient = gradient.coalesce()
        at = gradient.indices().clone()
        at[0] = index[at[0]]
        return sparse_rows(at, gradient.values(), (ctx.batch, *gradient.shape[1:])), None


class Join(torch.autograd.Function):
    """Placeholders of several batches as one; None for a batch whose memory is constant."""

    @staticmethod
    def forward(ctx: Any, sizes: list[int], like: Tensor, *held: Tensor | None) -> Tensor:
        ctx.sizes = sizes
        return placeholder(like, (sum(sizes), *like.shape[1:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        gradient = gradient.coalesce()
        batch, begin, found = gradient.indices()[0], 0, []
        for i, size in enumerate(ctx.sizes):
            keep = (batch >= begin) & (batch < begin + size)
            at = gradient.indices()[:, keep].clone()
            at[0] -= begin
            part = sparse_rows(at, gradient.values()[keep], (size, *gradient.shape[1:]))
            found.append(part if ctx.needs_input_grad[2 + i] else None)
            begin += size
        return None, None, *found


def chosen(mask: Tensor, where_true: Tensor | None, where_false: Tensor | None) -> Tensor | None:
    """Per batch element one of two placeholders; None stands for a constant."""
    like = where_true if where_true is not None else where_false
    return None if like is None else Choose.apply(mask, where_true, where_false, like.detach())


def joined(held: list[Tensor | None], sizes: list[int]) -> Tensor | None:
    """Placeholders of several batches as one."""
    like = next((one for one in held if one is not None), None)
    return None if like is None else Join.apply(sizes, like.detach(), *held)
