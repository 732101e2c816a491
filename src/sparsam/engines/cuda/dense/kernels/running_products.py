"""Gradients of products along a dimension, without dividing by a factor, which may be 0."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def then(a, b, next_a, next_b):
    """t -> b + a t, and after it t -> next_b + next_a t."""
    return a * next_a, next_b + next_a * b


@triton.jit
def cumprod_backward(x, products, gradient, found, N, BLOCK: tl.constexpr):
    """d x(i) = prod_{j < i} x(j) tail(i), with tail(i) = g(i) + x(i+1) tail(i+1); one row to a program.

    `products` are those of the forward pass, which hold the factors before i.
    """
    row = tl.program_id(0).to(tl.int64) * N
    i = N - 1 - tl.arange(0, BLOCK)  # from the last on
    there = i >= 0
    factor = tl.load(x + row + i + 1, mask=there & (i + 1 < N), other=0.0)
    given = tl.load(gradient + row + i, mask=there, other=0.0)
    _, tail = tl.associative_scan((factor, given), 0, then)
    before = tl.load(products + row + i - 1, mask=i > 0, other=1.0)
    tl.store(found + row + i, before * tail, mask=there)


@triton.jit
def prod_backward(x, gradient, found, N, R: tl.constexpr, BLOCK: tl.constexpr):
    """d x(h, i) = g(i) prod_{j != h} x(j, i) for x (rows, R, N)."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = i < N
    given = tl.load(gradient + row * N + i, mask=there, other=0.0)
    for h in tl.static_range(R):
        product = given
        for j in tl.static_range(R):
            if j != h:
                product *= tl.load(x + (row * R + j) * N + i, mask=there, other=0.0)
        tl.store(found + (row * R + h) * N + i, product, mask=there)
