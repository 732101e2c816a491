"""The SDNC's read: along the links from what was read before, mixed with the content read.

w^R = pi_b b + pi_c c + pi_f f with f_h(i) = sum_j w^R_{t-1,h}(j) P(j,i) and b_h(i) = sum_j w^R_{t-1,h}(j) N(j,i); the K
largest entries are kept. Per head there are KP candidates of the content read and KP KLP of each kind of link.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.ordering import NOTHING, key_number, key_row, largest, sort_key


@triton.jit
def _linked(links, row, KL: tl.constexpr, KLP: tl.constexpr):
    """Columns and weights (RP, KP, KLP) of the links of rows (RP, KP), -1 for none."""
    entry = tl.arange(0, KLP)[None, None, :]
    there = (row >= 0)[:, :, None] & (entry < KL)
    place = row[:, :, None] * KL + entry
    return tl.load(links[0] + place, mask=there, other=-1), tl.load(links[1] + place, mask=there, other=0.0)


@triton.jit
def read_modes(logits, R: tl.constexpr, RP: tl.constexpr):
    """The softmax pi_b, pi_c, pi_f, each (RP); the logits come head by head."""
    head = tl.arange(0, RP)
    at, mask = logits + 3 * head, head < R
    b = tl.load(at, mask=mask, other=0.0)
    c = tl.load(at + 1, mask=mask, other=0.0)
    f = tl.load(at + 2, mask=mask, other=0.0)
    top = tl.maximum(tl.maximum(b, c), f)
    b, c, f = tl.exp(b - top), tl.exp(c - top), tl.exp(f - top)
    total = b + c + f
    return b / total, c / total, f / total


@triton.jit
def mixed_read(
    logits,
    content_row,  # (RP, KP)
    content_weight,
    previous_row,
    previous_weight,
    predecessors,  # columns and weights
    successors,
    scratch,  # rows and weights (RP, CP)
    linked,  # (RP, KP, KP) tape: N(j, i) of the rows i read now and j read before, and P(j, i)
    size: tl.constexpr,
):
    """Rows and weights (RP, KP) of the read; what the gradient needs of the links goes to the tape."""
    RP: tl.constexpr = content_row.shape[0]
    KP: tl.constexpr = content_row.shape[1]
    CHUNK: tl.constexpr = 16
    scratch_rows, scratch_weights = scratch
    to_predecessors, to_successors = linked
    pi_b, pi_c, pi_f = read_modes(logits, size.R, RP)
    b_column, b_weight = _linked(predecessors, previous_row, size.KL, size.KLP)
    f_column, f_weight = _linked(successors, previous_row, size.KL, size.KLP)

    head = tl.arange(0, RP)
    k = tl.arange(0, KP)
    at = head[:, None] * size.CP + k[None, :]
    tl.store(scratch_rows + at, content_row)
    tl.store(scratch_weights + at, pi_c[:, None] * content_weight)
    at = head[:, None, None] * size.CP + KP + k[None, :, None] * size.KLP + tl.arange(0, size.KLP)[None, None, :]
    tl.store(scratch_rows + at, b_column)
    tl.store(scratch_weights + at, (pi_b[:, None] * previous_weight)[:, :, None] * b_weight)
    tl.store(scratch_rows + at + KP * size.KLP, f_column)
    tl.store(scratch_weights + at + KP * size.KLP, (pi_f[:, None] * previous_weight)[:, :, None] * f_weight)
    tl.debug_barrier()

    candidate = tl.arange(0, size.CP)
    full: tl.constexpr = KP + 2 * KP * size.KLP
    there = (candidate < full)[None, :] & (head >= 0)[:, None]
    place = head[:, None] * size.CP + candidate[None, :]
    row = tl.load(scratch_rows + place, mask=there, other=-1)
    total = tl.zeros([RP, size.CP], tl.float32)
    begin = 0
    while begin < full:
        other = begin + tl.arange(0, CHUNK)
        other_place = head[:, None] * size.CP + other[None, :]
        other_there = (other < full)[None, :] & (head >= 0)[:, None]
        other_row = tl.load(scratch_rows + other_place, mask=other_there, other=-2)
        other_weight = tl.load(scratch_weights + other_place, mask=other_there, other=0.0)
        same = row[:, :, None] == other_row[:, None, :]
        total += tl.sum(tl.where(same, other_weight[:, None, :], 0.0), 2)
        begin += CHUNK
    counts = (row >= 0) & ((total > 0) | (candidate < KP)[None, :])
    key = largest(tl.where(counts, sort_key(total, row), NOTHING), size.K, KP)
    found = key != NOTHING
    read_row = tl.where(found, key_row(key), -1)
    weight = tl.where(found, key_number(key), 0.0)

    # (RP, read now, read before, KLP)
    at = head[:, None, None] * (KP * KP) + k[None, :, None] * KP + k[None, None, :]
    wanted = found[:, :, None, None]
    same = (b_column[:, None, :, :] == read_row[:, :, None, None]) & wanted
    tl.store(to_predecessors + at, tl.sum(tl.where(same, b_weight[:, None, :, :], 0.0), 3))
    same = (f_column[:, None, :, :] == read_row[:, :, None, None]) & wanted
    tl.store(to_successors + at, tl.sum(tl.where(same, f_weight[:, None, :, :], 0.0), 3))
    return read_row, weight
