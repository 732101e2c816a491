"""Large memories at the price of their bytes: words that all elements share are read once, blanks are few."""

import triton
import triton.language as tl


@triton.jit
def spread(
    values,  # (count,)
    copies,  # (B, count)
    count,
    B,
    BLOCK: tl.constexpr,
):
    """The same numbers for every element, each read once."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < count
    value = tl.load(values + i, mask=there)
    b = 0
    while b < B:
        tl.store(copies + i, value, mask=there)
        copies += count
        b += 1


@triton.jit
def blank_rows(
    matrix,  # (B, M, W)
    rows,  # (T or T + 1, B, X) int32, -1 for none
    lengths,  # (B,) int32
    later,  # 1 where `rows` has one step more than the element
    B,
    M,
    W: tl.constexpr,
    WP: tl.constexpr,
    X: tl.constexpr,
):
    """Zeros in those rows of an element that its steps name; one program to a step and element."""
    t = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, WP)
    if t < tl.load(lengths + b) + later:
        row = tl.load(rows + (t.to(tl.int64) * B + b) * X + tl.arange(0, X))
        there = ((row >= 0) & (row < M))[:, None] & (column < W)[None, :]
        place = matrix + (b * M + row)[:, None] * W + column[None, :]
        tl.store(place, tl.zeros([X, WP], matrix.dtype.element_ty), mask=there)
