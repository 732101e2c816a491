"""The sparse write of a step.

eq. lru_write_weights: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]). A step writes RP (KP + 1) entries:
first the rows read before, head by head, then u_1..u_R. With free gates 1[u_h] is what the word has room for.
"""

import triton
import triton.language as tl


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
