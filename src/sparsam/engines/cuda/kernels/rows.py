"""Adding to rows of a matrix when the same row may come several times, the same bits every time."""

import triton
import triton.language as tl


@triton.jit
def summed_over_same(row, part):
    """For each entry, the sum of `part` (X, WP) over all entries of its row, alike for each of them."""
    same = (row[:, None] == row[None, :]) & (row >= 0)[:, None]
    return tl.dot(same.to(tl.float32), part, input_precision="tf32x3")


@triton.jit
def words_at(words, row, W: tl.constexpr, WP: tl.constexpr):
    """The words (RP, KP, WP) at rows (RP, KP), zero for -1."""
    column = tl.arange(0, WP)[None, None, :]
    return tl.load(words + row[:, :, None] * W + column, mask=(row >= 0)[:, :, None] & (column < W), other=0.0)


@triton.jit
def add_to_rows(matrix, row, part, W: tl.constexpr):
    """matrix(row) += part for rows (X), -1 for none, and parts (X, WP)."""
    column = tl.arange(0, part.shape[1])
    added = summed_over_same(row, part)
    mask = (row >= 0)[:, None] & (column < W)[None, :]
    place = matrix + row[:, None] * W + column[None, :]
    total = tl.load(place, mask=mask, other=0.0) + added
    tl.debug_barrier()  # another thread may hold the same row
    tl.store(place, total, mask=mask)
