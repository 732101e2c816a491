"""Which words are written anew when usage decides and not the ring: rules of `sparsam.memories.sdnc`."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.links import NO_LINK
from sparsam.engines.cuda.kernels.ordering import NOTHING, key_number, key_row, largest_of_two, sort_key


@triton.jit
def _without_traces(usage):
    return tl.where(usage > NO_LINK, usage, 0.0)


@triton.jit
def free_rows(
    usage,  # of this element (M)
    row,  # (X) rows read before, -1 for none, head by head
    weight,  # (X)
    gates,  # f (R)
    R: tl.constexpr,
    KP: tl.constexpr,
):
    """u(i) <- u(i) prod_h (1 - f_h w_h(i)) in place."""
    size: tl.constexpr = row.shape[0]
    there = row >= 0
    its_head = tl.arange(0, size) // KP
    same = (row[:, None] == row[None, :]) & there[:, None]
    read = tl.where(there, tl.minimum(weight, 1.0), 0.0)
    kept = tl.full([size], 1.0, tl.float32)
    for h in tl.static_range(R):
        kept *= 1 - tl.load(gates + h) * tl.sum(tl.where(same & (its_head == h)[None, :], read[None, :], 0.0), 1)
    left = _without_traces(tl.load(usage + row, mask=there, other=0.0) * kept)
    tl.debug_barrier()  # another thread may hold the same row
    tl.store(usage + row, left, mask=there)


@triton.jit
def usage_at(usage, row, there):
    return tl.load(usage + row, mask=there, other=0.0)


@triton.jit
def least_used(usage, M, R: tl.constexpr, RP: tl.constexpr, BLOCK: tl.constexpr):
    """The R rows (RP) of least usage, ties to the lowest row, least first.

    Rows are looked at in their order, so that R rows without usage end it.
    """
    place = tl.arange(0, RP)[None, :]
    best = tl.full([1, RP], NOTHING, tl.int64)
    least = tl.min(tl.max(best, 1), 0)  # the R-th best
    first = 0
    while (first < M) & ((least == NOTHING) | (key_number(least) < 0)):
        row = first + tl.arange(0, BLOCK)[None, :]
        there = row < M
        key = tl.where(there, sort_key(-tl.load(usage + row, mask=there, other=0.0), row), NOTHING)
        if tl.max(tl.max(key, 1), 0) > least:
            best = largest_of_two(best, key, R, RP)
            least = tl.min(tl.min(tl.where(place < R, best, 2**63 - 1), 1), 0)
        first += BLOCK
    return tl.reshape(key_row(best), [RP])


@triton.jit
def fill_rows(usage, row, weight):
    """u(i) <- u(i) + w(i) - u(i) w(i) at the rows written (X), with the weights averaged over the heads."""
    there = row >= 0
    before = tl.load(usage + row, mask=there, other=0.0)
    after = _without_traces(tl.minimum(tl.maximum(before + weight - before * weight, 0.0), 1.0))
    tl.debug_barrier()  # another thread may hold the same row
    tl.store(usage + row, after, mask=there)


@triton.jit
def room_gradient(
    d_room,  # (RP)
    room,
    before,  # (RP) usage of the rows of u at first
    fresh_row,  # (RP)
    prior_row,  # (RP, KP) rows read before, -1 for none
    prior_weight,
    gate,  # f (RP)
    RP: tl.constexpr,
):
    """Gradients of the free gates (RP), before their activation, and of the read weights before (RP, KP).

    u(u_h) = u_0(u_h) prod_h' (1 - f_h' w_h'(u_h)) and room = 1 - u.
    """
    head = tl.arange(0, RP)
    there = prior_row >= 0
    is_row = (fresh_row[:, None, None] == prior_row[None, :, :]) & there[None, :, :]  # (u, head, k)
    read = tl.sum(tl.where(is_row, tl.minimum(prior_weight, 1.0)[None, :, :], 0.0), 2)  # (u, head)
    factor = 1 - gate[None, :] * read
    others = tl.full([RP, RP], 1.0, tl.float32)
    for j in tl.static_range(RP):
        of_j = tl.sum(tl.where((head == j)[None, :], factor, 0.0), 1)
        others *= tl.where((head == j)[None, :], 1.0, of_j[:, None])
    pull = tl.where(room < 1, d_room * before, 0.0)[:, None] * others  # of f_h' w_h'(u)
    d_gate = tl.sum(pull * read, 0) * gate * (1 - gate)
    d_weight = gate[:, None] * tl.sum(tl.where(is_row, pull[:, :, None], 0.0), 0)
    return d_gate, tl.where(prior_weight <= 1, d_weight, 0.0)
