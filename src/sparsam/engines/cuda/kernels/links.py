"""One step of the SDNC's sparse links N, P and p (section D.1), by the rules of `sparsam.memories.sdnc`.

A row of N or P is K_L columns in any order, -1 for none, and their weights. Entries enter a row P(j,.) only when j is
in p, so only these K_L rows are chosen anew. In the other rows of P that a step changes, those in N(i,.) of a written
row i, the entry P(j,i) decays where it stands; no two (i, j) meet in one place.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.ordering import NOTHING, key_number, key_row, rank_in_two, sort_key

NO_LINK = tl.constexpr(1.8807909613156847e-37)  # 16 times the smallest normal float32: what counts as above 0


@triton.jit
def _place(links, at, key, rank, KL: tl.constexpr, wanted):
    """Stores keys (rows, X), as columns and weights, at their rank in the rows `at` where `wanted`."""
    place = at[:, None] * KL + rank
    mask = wanted[:, None] & (key != NOTHING) & (rank < KL)
    tl.store(links[0] + place, key_row(key), mask=mask)
    tl.store(links[1] + place, key_number(key), mask=mask)


@triton.jit
def _keep(links, at, first, second, ranks, KL: tl.constexpr, KLP: tl.constexpr, wanted):
    """Stores the K_L largest of the keys `first` and `second` (rows, ...) to the rows `at`; what is left is no link."""
    first_rank, second_rank = ranks
    _place(links, at, first, first_rank, KL, wanted)
    _place(links, at, second, second_rank, KL, wanted)
    count = tl.sum((first != NOTHING).to(tl.int32), 1) + tl.sum((second != NOTHING).to(tl.int32), 1)
    entry = tl.arange(0, KLP)[None, :]
    place = at[:, None] * KL + entry
    blank = wanted[:, None] & (entry >= count[:, None]) & (entry < KL)
    tl.store(links[0] + place, tl.full(place.shape, -1, tl.int32), mask=blank)
    tl.store(links[1] + place, tl.zeros(place.shape, tl.float32), mask=blank)


@triton.jit
def _link_key(weight, column, wanted):
    return tl.where(wanted & (weight > NO_LINK), sort_key(weight, column), NOTHING)


@triton.jit
def update_links(
    row,  # (X) rows written, -1 for none
    weight,  # (X) their write weights, summed over the heads and divided by R, the same for entries of the same row
    first,  # (X) bool: the first entry of its row
    predecessors,  # columns and weights of N (N, KL), P likewise, and p (KL), all of this element
    successors,
    precedence,
    journal,  # where LG: see `kernels.link_gradients`
    size: tl.constexpr,
):
    KL: tl.constexpr = size.KL
    KLP: tl.constexpr = size.KLP
    X: tl.constexpr = row.shape[0]
    predecessor_columns, predecessor_weights = predecessors
    successor_columns, successor_weights = successors
    precedence_columns, precedence_weights = precedence
    journal_columns, journal_weights = journal
    entry = tl.arange(0, KLP)
    written = first & (row >= 0) & (weight > NO_LINK)
    decay = tl.maximum(1 - weight, 0.0)
    p_column = tl.load(precedence_columns + entry, mask=entry < KL, other=-1)
    p_weight = tl.load(precedence_weights + entry, mask=entry < KL, other=0.0)
    p_there = p_column >= 0

    # N(i,.) as it was, of the rows written
    place = row[:, None] * KL + entry[None, :]
    there = written[:, None] & (entry < KL)[None, :]
    old_column = tl.load(predecessor_columns + place, mask=there, other=-1)
    old_weight = tl.load(predecessor_weights + place, mask=there, other=0.0)
    old_there = old_column >= 0
    in_p = (old_column[:, :, None] == p_column[None, None, :]) & old_there[:, :, None]

    # P(j,i) <- (1 - w(i)) P(j,i) for written i and j in N(i,.), not in p
    fades = old_there & (tl.sum(in_p.to(tl.int32), 2) == 0)
    place = old_column[:, :, None] * KL + entry[None, None, :]
    asked_j = fades[:, :, None] & (entry < KL)[None, None, :]
    column = tl.load(successor_columns + place, mask=asked_j, other=-1)
    linked = asked_j & (column == row[:, None, None])
    fading = tl.load(successor_weights + place, mask=linked, other=0.0)
    faded = decay[:, None, None] * fading
    if size.LG:
        at = tl.arange(0, X)[:, None] * KLP + entry[None, :]
        tl.store(journal_columns + at, old_column)
        tl.store(journal_weights + at, old_weight)
        tl.store(journal_columns + X * KLP + at, tl.sum(tl.where(linked, entry[None, None, :] + 1, 0), 2) - 1)
        tl.store(journal_weights + X * KLP + at, tl.sum(fading, 2))
    gone = faded <= NO_LINK
    tl.store(successor_weights + place, tl.where(gone, 0.0, faded), mask=linked)
    tl.store(successor_columns + place, tl.full(place.shape, -1, tl.int32), mask=linked & gone)

    # P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j) for written i and j in p
    asked_p = p_there[:, None] & (entry < KL)[None, :]
    j_column = tl.load(successor_columns + p_column[:, None] * KL + entry[None, :], mask=asked_p, other=-1)
    j_weight = tl.load(successor_weights + p_column[:, None] * KL + entry[None, :], mask=asked_p, other=0.0)
    if size.LG:
        at = 2 * X * KLP + entry[:, None] * KLP + entry[None, :]
        tl.store(journal_columns + at, j_column)
        tl.store(journal_weights + at, j_weight)
        tl.store(journal_columns + 2 * X * KLP + KLP * KLP + entry, p_column)
        tl.store(journal_weights + 2 * X * KLP + KLP * KLP + entry, p_weight)
    touched = written[None, :] & (row[None, :] != p_column[:, None]) & p_there[:, None]
    same = (j_column[:, None, :] == row[None, :, None]) & touched[:, :, None]
    old = tl.sum(tl.where(same, j_weight[:, None, :], 0.0), 2)
    stays = (tl.sum(same.to(tl.int32), 1) == 0) & (j_column >= 0)
    j_kept = _link_key(j_weight, j_column, stays)
    written_row = tl.broadcast_to(row[None, :], [KLP, X])
    j_new = _link_key(decay[None, :] * old + weight[None, :] * p_weight[:, None], written_row, touched)
    j_ranks = rank_in_two(j_new, j_kept)

    # N(i,.) <- (1 - w(i)) N(i,.) + w(i) p
    from_p = tl.sum(tl.where(in_p, p_weight[None, None, :], 0.0), 2)
    kept = _link_key(decay[:, None] * old_weight + weight[:, None] * from_p, old_column, old_there)
    new_there = (tl.sum(in_p.to(tl.int32), 1) == 0) & p_there[None, :] & (p_column[None, :] != row[:, None])
    new_column = tl.broadcast_to(p_column[None, :], [X, KLP])
    new = _link_key(weight[:, None] * p_weight[None, :], new_column, new_there)
    ranks = rank_in_two(kept, new)

    # p <- (1 - sum w) p + w
    share = tl.maximum(1 - tl.sum(tl.where(written, weight, 0.0), 0), 0.0)
    again = (p_column[:, None] == row[None, :]) & written[None, :]
    p_value = share * p_weight + tl.sum(tl.where(again, weight[None, :], 0.0), 1)
    p_kept = _link_key(p_value, p_column, p_there)[None, :]
    p_new = _link_key(weight, row, written & (tl.sum(again.to(tl.int32), 0) == 0))[None, :]
    p_ranks = rank_in_two(p_new, p_kept)

    tl.debug_barrier()  # other threads store what was loaded here
    one = tl.zeros([1], tl.int32)
    _keep(successors, p_column, j_new, j_kept, j_ranks, KL, KLP, p_there)
    _keep(predecessors, row, kept, new, ranks, KL, KLP, written)
    _keep(precedence, one, p_new, p_kept, p_ranks, KL, KLP, one == 0)
