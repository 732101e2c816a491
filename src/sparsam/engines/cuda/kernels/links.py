"""One step of the SDNC's sparse links N, P and p (section D.1), by the rules of `sparsam.engines.reference.links`.

A row of N or P is K_L columns, -1 for none, and their weights. All rows of P that change are found first, each once:
every candidate writes its number to its row's place in `mark`, and the one that stands there in the end speaks for it.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.ordering import NOTHING, key_number, key_row, largest_of_two, sort_key

NO_LINK = tl.constexpr(1.8807909613156847e-37)  # 16 times the smallest normal float32: what counts as above 0


@triton.jit
def _keep(columns, weights, at, key, KL: tl.constexpr, KLP: tl.constexpr, wanted):
    """Stores keys (rows, KLP), as columns and weights, to the rows `at` where `wanted`."""
    entry = tl.arange(0, KLP)[None, :]
    there = key != NOTHING
    column = tl.where(there, key_row(key), -1)
    weight = tl.where(there, key_number(key), 0.0)
    place = at[:, None] * KL + entry
    mask = wanted[:, None] & (entry < KL)
    tl.store(columns + place, column, mask=mask)
    tl.store(weights + place, weight, mask=mask)


@triton.jit
def _link_key(weight, column, wanted):
    return tl.where(wanted & (weight > NO_LINK), sort_key(weight, column), NOTHING)


@triton.jit
def update_links(
    row,  # (X) rows written, -1 for none
    weight,  # (X) their write weights, summed over the heads and divided by R, the same for entries of the same row
    first,  # (X) bool: the first entry of its row
    before_columns,  # N: columns and weights (N, KL), after_*: P, now_*: p (KL), all of this element
    before_weights,
    after_columns,
    after_weights,
    now_columns,
    now_weights,
    mark,  # (N) scratch
    changed,  # (X * KLP + KLP) scratch: the rows of P that change
    KL: tl.constexpr,
    KLP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    size: tl.constexpr = row.shape[0]
    entry = tl.arange(0, KLP)
    written = first & (row >= 0) & (weight > NO_LINK)
    decay = tl.maximum(1 - weight, 0.0)
    p_column = tl.load(now_columns + entry, mask=entry < KL, other=-1)
    p_weight = tl.load(now_weights + entry, mask=entry < KL, other=0.0)
    p_there = p_column >= 0

    # N(i,.) as it was, of the rows written
    place = row[:, None] * KL + entry[None, :]
    asked = written[:, None] & (entry < KL)[None, :]
    old_column = tl.load(before_columns + place, mask=asked, other=-1)
    old_weight = tl.load(before_weights + place, mask=asked, other=0.0)
    old_there = old_column >= 0

    # which rows of P change: those in p and in N(i,.)
    number = tl.arange(0, size)[:, None] * KLP + entry[None, :]
    tl.store(mark + old_column, number, mask=old_there)
    tl.store(mark + p_column, size * KLP + entry, mask=p_there)
    tl.debug_barrier()
    speaks = old_there & (tl.load(mark + old_column, mask=old_there, other=-1) == number)
    p_speaks = p_there & (tl.load(mark + p_column, mask=p_there, other=-1) == size * KLP + entry)
    flat = tl.reshape(speaks.to(tl.int32), [size * KLP])
    rank = tl.cumsum(flat, 0) - flat
    tl.store(changed + rank, tl.reshape(old_column, [size * KLP]), mask=flat > 0)
    count = tl.sum(flat, 0)
    p_flat = p_speaks.to(tl.int32)
    tl.store(changed + count + tl.cumsum(p_flat, 0) - p_flat, p_column, mask=p_speaks)
    count += tl.sum(p_flat, 0)
    tl.debug_barrier()

    # P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j) for written i and j in p or N(i,.)
    begin = 0
    while begin < count:
        which = begin + tl.arange(0, BLOCK)
        valid = which < count
        j = tl.load(changed + which, mask=valid, other=-1)
        j_p = tl.sum(tl.where(j[:, None] == p_column[None, :], p_weight[None, :], 0.0), 1)
        asked_j = valid[:, None] & (entry < KL)[None, :]
        j_column = tl.load(after_columns + j[:, None] * KL + entry[None, :], mask=asked_j, other=-1)
        j_weight = tl.load(after_weights + j[:, None] * KL + entry[None, :], mask=asked_j, other=0.0)
        linked = tl.sum((old_column[None, :, :] == j[:, None, None]).to(tl.int32), 2) > 0
        able = written[None, :] & (row[None, :] != j[:, None]) & valid[:, None]
        touched = (linked | (j_p > 0)[:, None]) & able
        same = (j_column[:, None, :] == row[None, :, None]) & touched[:, :, None]
        old = tl.sum(tl.where(same, j_weight[:, None, :], 0.0), 2)
        stays = (tl.sum(same.to(tl.int32), 1) == 0) & (j_column >= 0)
        j_kept = _link_key(j_weight, j_column, stays)
        row_there = tl.broadcast_to(row[None, :], [BLOCK, size])
        j_new = _link_key(decay[None, :] * old + weight[None, :] * j_p[:, None], row_there, touched)
        _keep(after_columns, after_weights, j, largest_of_two(j_new, j_kept, KL, KLP), KL, KLP, valid)
        begin += BLOCK
    tl.debug_barrier()

    # N(i,.) <- (1 - w(i)) N(i,.) + w(i) p
    in_p = (old_column[:, :, None] == p_column[None, None, :]) & old_there[:, :, None]
    from_p = tl.sum(tl.where(in_p, p_weight[None, None, :], 0.0), 2)
    kept = _link_key(decay[:, None] * old_weight + weight[:, None] * from_p, old_column, old_there)
    new_there = (tl.sum(in_p.to(tl.int32), 1) == 0) & p_there[None, :] & (p_column[None, :] != row[:, None])
    new_column = tl.broadcast_to(p_column[None, :], [size, KLP])
    new = _link_key(weight[:, None] * p_weight[None, :], new_column, new_there)
    _keep(before_columns, before_weights, row, largest_of_two(kept, new, KL, KLP), KL, KLP, written)

    # p <- (1 - sum w) p + w
    share = tl.maximum(1 - tl.sum(tl.where(written, weight, 0.0), 0), 0.0)
    again = (p_column[:, None] == row[None, :]) & written[None, :]
    p_value = share * p_weight + tl.sum(tl.where(again, weight[None, :], 0.0), 1)
    p_kept = _link_key(p_value, p_column, p_there)
    p_new = _link_key(weight, row, written & (tl.sum(again.to(tl.int32), 0) == 0))
    p_key = largest_of_two(p_new[None, :], p_kept[None, :], KL, KLP)
    one = tl.zeros([1], tl.int32)
    _keep(now_columns, now_weights, one, p_key, KL, KLP, one == 0)
