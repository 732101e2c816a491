"""A row vector times a matrix, streamed from memory: out = sum_j x(j) A(j, :)."""

import triton
import triton.language as tl


@triton.jit
def vector_times_matrix(
    x,
    matrix,
    stride,
    COUNT: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDTH_P: tl.constexpr,
    PRODUCT: tl.constexpr,
    STAGES: tl.constexpr,
):
    """x (COUNT) at a pointer, times `matrix` (COUNT, WIDTH) whose rows are `stride` apart; (WIDTH_P).

    PRODUCT numbers of the matrix are multiplied at a time. These blocks come through shared
    memory, STAGES of them on their way at a time.
    """
    BLOCK: tl.constexpr = PRODUCT // WIDTH_P if PRODUCT > WIDTH_P else 1
    column = tl.arange(0, WIDTH_P)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, WIDTH_P], tl.float32)
    for begin in tl.range(0, COUNT, BLOCK, num_stages=STAGES):
        j = begin + inner
        there = j < COUNT
        tile = tl.load(
            matrix + j[:, None] * stride + column[None, :], mask=there[:, None] & (column < WIDTH)[None, :], other=0.0
        )
        total += tl.load(x + j, mask=there, other=0.0)[:, None] * tile.to(tl.float32)
    return tl.sum(total, 0)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))
