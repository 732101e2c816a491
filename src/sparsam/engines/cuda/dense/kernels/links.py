"""The DNC's temporal links (Graves 2016, Methods), forward and backward: a block of rows of L at a time.

L_t(i,j) = (1 - w(i) - w(j)) L_{t-1}(i,j) + w(i) p_{t-1}(j), 0 on the diagonal;
f = L_t w^R_{t-1},   b = L_t^T w^R_{t-1}.
"""

import triton
import triton.language as tl


@triton.jit
def link_forward(
    link,
    precedence,
    written,  # of this step
    weights,  # of the read before
    next_link,
    followed,  # (2, R, N): b and f
    size: tl.constexpr,
):
    head, n = tl.arange(0, size.RP), tl.arange(0, size.NP)
    real = (head < size.R)[:, None] & (n < size.N)[None, :]
    columns = tl.load(written + n, mask=n < size.N, other=0.0)
    before = tl.load(precedence + n, mask=n < size.N, other=0.0)
    read = tl.load(weights + head[:, None] * size.N + n[None, :], mask=real, other=0.0)
    backward = tl.zeros([size.RP, size.NP], tl.float32)
    for begin in tl.range(0, size.NP, size.LB):
        i = begin + tl.arange(0, size.LB)
        place, there = i[:, None] * size.N + n[None, :], (i < size.N)[:, None] & (n < size.N)[None, :]
        rows = tl.load(written + i, mask=i < size.N, other=0.0)
        block = tl.load(link + place, mask=there, other=0.0)
        block = (1 - rows[:, None] - columns[None, :]) * block + rows[:, None] * before[None, :]
        block = tl.where(i[:, None] == n[None, :], 0.0, block)
        tl.store(next_link + place, block, mask=there)
        own = (head < size.R)[:, None] & (i < size.N)[None, :]
        read_here = tl.load(weights + head[:, None] * size.N + i[None, :], mask=own, other=0.0)
        forward = tl.sum(block[None, :, :] * read[:, None, :], 2)
        tl.store(followed + size.R * size.N + head[:, None] * size.N + i[None, :], forward, mask=own)
        backward += tl.sum(block[None, :, :] * read_here[:, :, None], 1)
    tl.store(followed + head[:, None] * size.N + n[None, :], backward, mask=real)


@triton.jit
def link_backward(
    link,
    precedence,
    written,
    weights,
    next_link,
    to_forward,  # (R, N), gradient of f, at a pointer
    d_backward,  # (RP, NP), of b
    d_link,  # of L_t; becomes that of L_{t-1}
    rows_of_read,  # scratch (R, N) and (N)
    rows_of_written,
    size: tl.constexpr,
):
    """Gradients of w^R_{t-1} (RP, NP), w and p_{t-1} (NP). With G that of L_t, through f and b as well:

    dL_{t-1}(i,j) = (1 - w(i) - w(j)) G(i,j),   dp = G^T w,   dw(i) = (G p)(i) - sum_j (G L)(i,j) - sum_j (G L)(j,i).
    """
    head, n = tl.arange(0, size.RP), tl.arange(0, size.NP)
    real = (head < size.R)[:, None] & (n < size.N)[None, :]
    head_row = head[:, None] * size.N + n[None, :]
    columns = tl.load(written + n, mask=n < size.N, other=0.0)
    before = tl.load(precedence + n, mask=n < size.N, other=0.0)
    read = tl.load(weights + head_row, mask=real, other=0.0)
    d_read = tl.zeros([size.RP, size.NP], tl.float32)
    d_precedence = tl.zeros([size.NP], tl.float32)
    d_columns = tl.zeros([size.NP], tl.float32)
    for begin in tl.range(0, size.NP, size.LB):
        i = begin + tl.arange(0, size.LB)
        place, there = i[:, None] * size.N + n[None, :], (i < size.N)[:, None] & (n < size.N)[None, :]
        own = (head < size.R)[:, None] & (i < size.N)[None, :]
        own_place = head[:, None] * size.N + i[None, :]
        rows = tl.load(written + i, mask=i < size.N, other=0.0)
        d_forward = tl.load(to_forward + own_place, mask=own, other=0.0)
        read_here = tl.load(weights + own_place, mask=own, other=0.0)
        block = tl.load(next_link + place, mask=there, other=0.0)
        d_read += tl.sum(block[None, :, :] * d_forward[:, :, None], 1)
        tl.store(rows_of_read + own_place, tl.sum(block[None, :, :] * d_backward[:, None, :], 2), mask=own)
        gradient = tl.load(d_link + place, mask=there, other=0.0)
        gradient += tl.sum(d_forward[:, :, None] * read[:, None, :] + read_here[:, :, None] * d_backward[:, None, :], 0)
        gradient = tl.where((i[:, None] == n[None, :]) | (there == 0), 0.0, gradient)
        d_precedence += tl.sum(gradient * rows[:, None], 0)
        through = gradient * tl.load(link + place, mask=there, other=0.0)
        d_columns -= tl.sum(through, 0)
        d_rows = tl.sum(gradient * before[None, :] - through, 1)
        tl.store(rows_of_written + i, d_rows, mask=i < size.N)
        tl.store(d_link + place, (1 - rows[:, None] - columns[None, :]) * gradient, mask=there)
    tl.debug_barrier()
    d_read += tl.load(rows_of_read + head_row, mask=real, other=0.0)
    d_columns += tl.load(rows_of_written + n, mask=n < size.N, other=0.0)
    return d_read, d_columns, d_precedence
