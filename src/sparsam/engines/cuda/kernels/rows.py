"""The rows of a step: what it writes, and sums over rows that may come several times, the same bits every time.

eq. lru_write_weights: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]). A step writes RP (KP + 1) entries:
first the rows read before, head by head, then u_1..u_R. With free gates 1[u_h] is what the word has room for.
"""

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


@triton.jit
def write_entries(
    previous_rows,  # (RP, KP) of the step before
    previous_weights,
    unused,  # (RP)
    gates,  # alpha (R), then gamma (R)
    room,  # (RP) of u, where FREE
    SIZE: tl.constexpr,
    R: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    FREE: tl.constexpr,
):
    """Rows (SIZE), -1 for none; head of each entry; whether it is one of u; weight."""
    i = tl.arange(0, SIZE)
    is_previous = i < RP * KP
    is_fresh = (i >= RP * KP) & (i < RP * KP + R)
    head = tl.where(is_previous, i // KP, tl.where(is_fresh, i - RP * KP, 0))
    row = tl.load(previous_rows + i, mask=is_previous, other=-1)
    row = tl.where(is_fresh, tl.load(unused + head, mask=is_fresh, other=-1), row)
    there = row >= 0
    previous = tl.load(previous_weights + i, mask=is_previous & there, other=0.0)
    alpha = tl.load(gates + head, mask=there, other=0.0)
    gamma = tl.load(gates + R + head, mask=there, other=0.0)
    fresh = 1 - gamma
    if FREE:
        fresh *= tl.load(room + head, mask=is_fresh, other=0.0)
    weight = alpha * tl.where(is_fresh, fresh, gamma * previous)
    return row, head, is_fresh, weight


@triton.jit
def averaged_over_heads(row, weight, R: tl.constexpr):
    """For the links: each entry's row summed over all entries and divided by R, and whether it is the row's first."""
    index = tl.arange(0, row.shape[0])
    same = (row[:, None] == row[None, :]) & (row >= 0)[:, None]
    total = tl.sum(tl.where(same, weight[None, :], 0.0), 1) / R
    repeated = tl.sum((same & (index[None, :] < index[:, None])).to(tl.int32), 1)
    return total, repeated == 0
