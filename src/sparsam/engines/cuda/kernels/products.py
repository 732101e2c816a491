"""A row vector times a matrix that is streamed from memory: sum_j x(j) A(j, :)."""

import triton
import triton.language as tl


@triton.jit
def _block(x, matrix, stride, j, column, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """x(j) and A(j, :) for a block of rows, zero where there are none."""
    there = j < COUNT
    mask = there[:, None] & (column < WIDTH)[None, :]
    tile = tl.load(matrix + j[:, None] * stride + column[None, :], mask=mask, other=0.0)
    return tl.load(x + j, mask=there, other=0.0), tile


@triton.jit
def vector_times_matrix(
    x, matrix, stride, COUNT: tl.constexpr, WIDTH: tl.constexpr, WIDTH_P: tl.constexpr, PRODUCT: tl.constexpr
):
    """x (COUNT) at a pointer, times `matrix` (COUNT, WIDTH) whose rows are `stride` apart; (WIDTH_P).

    PRODUCT numbers of the matrix are multiplied at a time. Two such blocks are always on their way while a third is
    multiplied: the latency of a load is that of about one block. The threads meet once, at the end.
    """
    BLOCK: tl.constexpr = PRODUCT // WIDTH_P if PRODUCT > WIDTH_P else 1
    column = tl.arange(0, WIDTH_P)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, WIDTH_P], tl.float32)
    value, tile = _block(x, matrix, stride, inner, column, COUNT, WIDTH)
    next_value, next_tile = _block(x, matrix, stride, BLOCK + inner, column, COUNT, WIDTH)
    begin = 0
    while begin < COUNT:
        later_value, later_tile = _block(x, matrix, stride, begin + 2 * BLOCK + inner, column, COUNT, WIDTH)
        total += value[:, None] * tile.to(tl.float32)
        value, tile = next_value, next_tile
        next_value, next_tile = later_value, later_tile
        begin += BLOCK
    return tl.sum(total, 0)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))
