"""Placeholders of native memories in the autograd graph: tensors of the memory's shape without storage.

Their gradients are sparse: rows and words, never N times W numbers. Between two calls of the core the gradient is an
empty one, and the rows stay in the core (`Pending` of csrc/memory/gradients.h): autograd decides which call
comes next, and the rows are there when it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Back = Callable[[Tensor, Any], Any]  # the gradient of a placeholder to those of what it comes from


@functools.lru_cache(maxsize=8)
def zero(dtype: torch.dtype) -> Tensor:
    """Expanded, it is what a memory (B, N, W) is in the autograd graph: with the storage of one number."""
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


class Derived(torch.autograd.Function):
    """A placeholder for what comes from `sources`: tensors, or other placeholders, None for constants.

    `back` takes its gradient to those that are there, going by `elements`, a mask or an index, where it needs one.
    """

    @staticmethod
    def forward(
        ctx: Any, back: Back, shape: tuple[int, ...], dtype: torch.dtype, elements: Tensor | None, *sources: Any
    ) -> Tensor:
        ctx.back = back
        ctx.save_for_backward(elements)
        return zero(dtype).expand(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return None, None, None, None, *ctx.back(gradient, *ctx.saved_tensors)


derived: Any = Derived.apply


class ToDense(torch.autograd.Function):
    """From the placeholder to all words (B, N, W), whose numbers are given."""

    @staticmethod
    def forward(ctx: Any, held: Tensor, words: Tensor) -> Tensor:
        return words.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to_sparse(2), None


def begun(initial: Tensor, batch: int) -> Tensor:
    """The placeholder of a user's initial memory (N, W) or (B, N, W); a leaf gets a sparse gradient."""
    shape, leaf = tuple(initial.shape), initial.is_leaf

    def back(gradient: Tensor, _: Any) -> tuple[Tensor]:
        gradient = gradient.coalesce()
        at = gradient.indices()[3 - len(shape) :]  # without the batch where one memory is shared by it
        gradient = sparse_rows(at, gradient.values(), shape).coalesce()
        # Operations that made the memory expect a dense gradient; a leaf accumulates sparse ones.
        return (gradient if leaf else gradient.to_dense(),)

    return derived(back, (batch, *shape[-2:]), initial.dtype, None, initial)  # type: ignore[no-any-return]


def from_dense(words: Tensor) -> Tensor:
    """The placeholder of all words (B, N, W) of a dense memory."""
    return derived(lambda gradient, _: (gradient.to_dense(),), tuple(words.shape), words.dtype, None, words)  # type: ignore[no-any-return]


def cast(held: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A placeholder in another floating-point type."""
    if held is None:
        return None
    before = held.dtype
    return derived(lambda gradient, _: (gradient.to(before),), tuple(held.shape), dtype, None, held)  # type: ignore[no-any-return]


def chosen(mask: Tensor, where_true: Tensor | None, where_false: Tensor | None) -> Tensor | None:
    """Per batch element one of two placeholders: its gradient goes to the memory that it came from."""
    like = where_true if where_true is not None else where_false
    if like is None:
        return None
    there = where_true is not None, where_false is not None

    def back(gradient: Tensor, mask: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(of_elements(gradient, side) if one else None for one, side in zip(there, (mask, ~mask)))

    return derived(back, tuple(like.shape), like.dtype, mask, where_true, where_false)  # type: ignore[no-any-return]


def selected(held: Tensor | None, index: Tensor) -> Tensor | None:
    """Some batch elements of a placeholder, some of them perhaps more than once."""
    if held is None:
        return None
    shape = tuple(held.shape)

    def back(gradient: Tensor, index: Tensor) -> tuple[Tensor]:
        gradient = gradient.coalesce()
        at = gradient.indices().clone()
        at[0] = index[at[0]]
        return (sparse_rows(at, gradient.values(), shape),)

    return derived(back, (index.numel(), *shape[1:]), held.dtype, index, held)  # type: ignore[no-any-return]


def joined(held: list[Tensor | None], sizes: list[int]) -> Tensor | None:
    """Placeholders of several batches as one."""
    like = next((one for one in held if one is not None), None)
    if like is None:
        return None
    there = [one is not None for one in held]

    def back(gradient: Tensor, _: Any) -> list[Tensor | None]:
        gradient = gradient.coalesce()
        batch, begin, found = gradient.indices()[0], 0, []
        for size, one in zip(sizes, there):
            keep = (batch >= begin) & (batch < begin + size)
            at = gradient.indices()[:, keep].clone()
            at[0] -= begin
            found.append(sparse_rows(at, gradient.values()[keep], (size, *gradient.shape[1:])) if one else None)
            begin += size
        return found

    return derived(back, (sum(sizes), *like.shape[1:]), like.dtype, None, *held)  # type: ignore[no-any-return]
