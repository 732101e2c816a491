"""The gradient of the links, step by step backward: of following them, and of their update (`kernels.links`).

Lists of columns change from step to step. A gradient lies where its entry lies, and columns are taken back to what they
were before the step from a journal that the forward pass keeps, so that both always have the order of one moment.
The journal of a step, whole numbers and weights alike: N(i,.) of the rows written (SIZE, KLP); of the entries P(j,i)
that fade their places in the row and weights (SIZE, KLP); P(j,.) of the rows in p (KLP, KLP); p (KLP).
"""

import triton
import triton.language as tl

NO_LINK = tl.constexpr(1.8807909613156847e-37)  # as in `kernels.links`


@triton.jit
def add_followed(
    links,  # columns of N or P (M, KL) as after the update, and gradients
    previous_rows,  # (RP, KP) at a pointer, as the next two
    previous_weights,
    read_rows,
    dw,  # (RP, KP): of the weights of the rows read
    mode,  # (RP): pi_b or pi_f
    KL: tl.constexpr,
    KLP: tl.constexpr,
):
    """dX(j,i) += sum_h pi_h w^R_{t-1,h}(j) dw_h(i), the same sum for all heads that read the same row before."""
    RP: tl.constexpr = dw.shape[0]
    KP: tl.constexpr = dw.shape[1]
    columns, gradient = links
    row = tl.load(previous_rows + tl.arange(0, RP * KP))
    entry = tl.arange(0, KLP)[None, :]
    there = (row >= 0)[:, None] & (entry < KL)
    place = row[:, None] * KL + entry
    column = tl.load(columns + place, mask=there, other=-1)
    total = tl.load(gradient + place, mask=there, other=0.0)
    head = tl.arange(0, RP)
    k = tl.arange(0, KP)
    for h in tl.static_range(RP):
        its_row = tl.load(previous_rows + h * KP + k)
        its_weight = tl.load(previous_weights + h * KP + k)
        same = (row[:, None] == its_row[None, :]) & (row >= 0)[:, None]
        share = tl.sum(tl.where(same, its_weight[None, :], 0.0), 1)
        now = tl.load(read_rows + h * KP + k)
        pull = tl.sum(tl.where((head == h)[:, None], mode[:, None] * dw, 0.0), 0)
        hit = (column[:, :, None] == now[None, None, :]) & (column >= 0)[:, :, None]
        total += share[:, None] * tl.sum(tl.where(hit, pull[None, None, :], 0.0), 2)
    tl.debug_barrier()  # another thread may hold the same row
    tl.store(gradient + place, total, mask=there)


@triton.jit
def update_gradient(
    row,  # (X) as in `update_links`
    weight,
    first,
    journal,
    predecessors,  # columns and gradients, likewise
    successors,
    precedence,
    size: tl.constexpr,
):
    """From the gradients after the update to those before, in place; returns those of the write weights (X).

    What a row's weight gets stands at its first entry.
    """
    KL: tl.constexpr = size.KL
    KLP: tl.constexpr = size.KLP
    X: tl.constexpr = row.shape[0]
    journal_columns, journal_weights = journal
    predecessor_columns, d_predecessors = predecessors
    successor_columns, d_successors = successors
    precedence_columns, d_precedence = precedence
    entry = tl.arange(0, KLP)
    written = first & (row >= 0) & (weight > NO_LINK)
    share_of = tl.where(written, weight, 0.0)
    decay = tl.maximum(1 - weight, 0.0)
    at = tl.arange(0, X)[:, None] * KLP + entry[None, :]
    old_column = tl.load(journal_columns + at)
    old_weight = tl.load(journal_weights + at)
    slot = tl.load(journal_columns + X * KLP + at)
    fading = tl.load(journal_weights + X * KLP + at)
    at = 2 * X * KLP + entry[:, None] * KLP + entry[None, :]
    j_column = tl.load(journal_columns + at)
    j_weight = tl.load(journal_weights + at)
    at = 2 * X * KLP + KLP * KLP + entry
    p_column = tl.load(journal_columns + at)
    p_weight = tl.load(journal_weights + at)
    p_there = p_column >= 0

    # N(i,.) <- (1 - w(i)) N(i,.) + w(i) p
    n_place = row[:, None] * KL + entry[None, :]
    n_mask = written[:, None] & (entry < KL)[None, :]
    column = tl.load(predecessor_columns + n_place, mask=n_mask, other=-2)
    gradient = tl.load(d_predecessors + n_place, mask=n_mask, other=0.0)
    same = (column[:, None, :] == old_column[:, :, None]) & (old_column >= 0)[:, :, None]
    n_kept = tl.sum(tl.where(same, gradient[:, None, :], 0.0), 2)
    d_decay = tl.sum(n_kept * old_weight, 1)
    entered = written[:, None] & p_there[None, :] & (p_column[None, :] != row[:, None])
    same = (column[:, None, :] == p_column[None, :, None]) & entered[:, :, None]
    of_p = tl.sum(tl.where(same, gradient[:, None, :], 0.0), 2)
    d_weight = tl.sum(of_p * p_weight[None, :], 1)
    d_p = tl.sum(of_p * share_of[:, None], 0)

    # P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j) for j in p
    j_place = p_column[:, None] * KL + entry[None, :]
    j_mask = p_there[:, None] & (entry < KL)[None, :]
    column = tl.load(successor_columns + j_place, mask=j_mask, other=-2)
    gradient = tl.load(d_successors + j_place, mask=j_mask, other=0.0)
    touched = written[None, :] & (row[None, :] != p_column[:, None]) & p_there[:, None]
    after = (column[:, None, :] == row[None, :, None]) & touched[:, :, None]
    of_new = tl.sum(tl.where(after, gradient[:, None, :], 0.0), 2)  # (j, i)
    before = (j_column[:, None, :] == row[None, :, None]) & touched[:, :, None]
    d_decay += tl.sum(of_new * tl.sum(tl.where(before, j_weight[:, None, :], 0.0), 2), 0)
    d_weight += tl.sum(of_new * p_weight[:, None], 0)
    d_p += tl.sum(of_new * share_of[None, :], 1)
    changed = tl.sum(tl.where(before, (of_new * decay[None, :])[:, :, None], 0.0), 1)
    same = (column[:, None, :] == j_column[:, :, None]) & (j_column >= 0)[:, :, None]
    stayed = tl.sum(tl.where(same, gradient[:, None, :], 0.0), 2)
    j_gradient = tl.where(tl.sum(before.to(tl.int32), 1) > 0, changed, stayed)

    # P(j,i) <- (1 - w(i)) P(j,i) for the others in N(i,.)
    fades = slot >= 0
    f_place = old_column * KL + slot
    left = fades & (decay[:, None] * fading > NO_LINK)
    f_gradient = tl.load(d_successors + f_place, mask=left, other=0.0)
    d_decay += tl.sum(f_gradient * fading, 1)

    # p <- (1 - sum w) p + w
    column = tl.load(precedence_columns + entry, mask=entry < KL, other=-2)
    gradient = tl.load(d_precedence + entry, mask=entry < KL, other=0.0)
    total = tl.sum(share_of, 0)
    same = (column[None, :] == p_column[:, None]) & p_there[:, None]
    p_kept = tl.sum(tl.where(same, gradient[None, :], 0.0), 1)
    same = (column[None, :] == row[:, None]) & written[:, None]
    d_weight += tl.sum(tl.where(same, gradient[None, :], 0.0), 1)
    d_weight -= tl.where(total <= 1, tl.sum(p_kept * p_weight, 0), 0.0)
    d_weight -= tl.where(weight <= 1, d_decay, 0.0)
    d_p += p_kept * tl.maximum(1 - total, 0.0)

    tl.debug_barrier()  # other threads store what was loaded here
    tl.store(predecessor_columns + n_place, old_column, mask=n_mask)
    tl.store(d_predecessors + n_place, n_kept * decay[:, None], mask=n_mask)
    tl.store(successor_columns + j_place, j_column, mask=j_mask)
    tl.store(d_successors + j_place, j_gradient, mask=j_mask)
    tl.store(successor_columns + f_place, tl.broadcast_to(row[:, None], [X, KLP]), mask=fades)
    tl.store(d_successors + f_place, f_gradient * decay[:, None], mask=fades)
    tl.store(precedence_columns + entry, p_column, mask=entry < KL)
    tl.store(d_precedence + entry, d_p, mask=entry < KL)
    return tl.where(written, d_weight, 0.0)
