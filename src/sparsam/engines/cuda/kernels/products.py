"""Products of a vector with a matrix that is streamed from memory, the matrix in the models' own order.

Forward, the sums of a row are over numbers that lie side by side: a row is added up within a warp, rows do not wait for
each other. Backward, whole rows are added up. Two blocks of rows are always on their way while a third is multiplied:
the latency of a load is that of about one block.
"""

import triton
import triton.language as tl


@triton.jit
def _rows(matrix, stride, row, column, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of a matrix, zero where there are none."""
    mask = (row < COUNT)[:, None] & (column < WIDTH)[None, :]
    return tl.load(matrix + row[:, None] * stride + column[None, :], mask=mask, other=0.0)


@triton.jit
def matrix_times_vector(
    matrix,
    stride,
    x,
    out,
    bias,
    COUNT: tl.constexpr,
    ADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDTH_P: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    """out(i) = [out(i) for i < ADDED] + bias(i) + sum_j A(i, j) x(j), for `matrix` (COUNT, WIDTH) with rows `stride`
    apart; all at pointers. PRODUCT numbers of the matrix are multiplied at a time."""
    BLOCK: tl.constexpr = PRODUCT // WIDTH_P if PRODUCT > WIDTH_P else 1
    column = tl.arange(0, WIDTH_P)
    inner = tl.arange(0, BLOCK)
    vector = tl.load(x + column, mask=column < WIDTH, other=0.0)
    tile = _rows(matrix, stride, inner, column, COUNT, WIDTH)
    following = _rows(matrix, stride, BLOCK + inner, column, COUNT, WIDTH)
    begin = 0
    while begin < COUNT:
        row = begin + inner
        there = row < COUNT
        later = _rows(matrix, stride, row + 2 * BLOCK, column, COUNT, WIDTH)
        value = tl.sum(tile.to(tl.float32) * vector[None, :], 1)
        value += tl.load(bias + row, mask=there, other=0.0).to(tl.float32)
        if ADDED > 0:
            value += tl.load(out + row, mask=row < ADDED, other=0.0)
        tl.store(out + row, value, mask=there)
        tile = following
        following = later
        begin += BLOCK


@triton.jit
def vector_times_matrix(
    x,
    matrix,
    stride,
    COUNT: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDTH_P: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    """sum_j x(j) A(j, :), (WIDTH_P): x (COUNT) at a pointer and `matrix` (COUNT, WIDTH) with rows `stride` apart."""
    BLOCK: tl.constexpr = PRODUCT // WIDTH_P if PRODUCT > WIDTH_P else 1
    column = tl.arange(0, WIDTH_P)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, WIDTH_P], tl.float32)
    tile = _rows(matrix, stride, inner, column, COUNT, WIDTH)
    following = _rows(matrix, stride, BLOCK + inner, column, COUNT, WIDTH)
    begin = 0
    while begin < COUNT:
        j = begin + inner
        later = _rows(matrix, stride, j + 2 * BLOCK, column, COUNT, WIDTH)
        total += tl.load(x + j, mask=j < COUNT, other=0.0)[:, None] * tile.to(tl.float32)
        tile = following
        following = later
        begin += BLOCK
    return tl.sum(total, 0)


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x)))
