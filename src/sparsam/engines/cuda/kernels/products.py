"""A row vector times a matrix, streamed from memory: out = sum_j x(j) A(j, :)."""

import triton
import triton.language as tl


@triton.jit
def vector_times_matrix(x, matrix, stride, COUNT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """x (COUNT) at a pointer, times `matrix` (COUNT, WIDTH) whose rows are `stride` apart; COUNT divides by BLOCK."""
    column = tl.arange(0, WIDTH)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, WIDTH], tl.float32)
    begin = 0
    while begin < COUNT:
        j = begin + inner
        total += tl.load(x + j)[:, None] * tl.load(matrix + j[:, None] * stride + column[None, :])
        begin += BLOCK
    return tl.sum(total, 0)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))
