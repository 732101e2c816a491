"""A whole sequence forward: steps 1 to 7 of SAM, and the SDNC's links between write and read.

What the backward pass needs goes to the tape: activated gates, cells, [h, r], interface, rows and weights, the words
that were read. These are a constant number of bytes per step, and the memory itself need not be taken back.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.following import mixed_read
from sparsam.engines.cuda.kernels.links import update_links
from sparsam.engines.cuda.kernels.ordering import key_number, key_row
from sparsam.engines.cuda.kernels.products import softplus, tanh, vector_times_matrix
from sparsam.engines.cuda.kernels.ring import least_recent, touch
from sparsam.engines.cuda.kernels.rows import summed_over_same, words_at
from sparsam.engines.cuda.kernels.search import most_similar
from sparsam.engines.cuda.kernels.writing import write_entries


@triton.jit
def forward(
    # tape, time first: see `sparsam.engines.cuda.sequence`
    gates,
    cells,
    joint,
    interface,
    rows,
    weights,
    scores,
    unused,
    read_words,
    content_rows,
    content_weights,
    content_words,
    to_before,
    to_after,
    # parameters
    recurrent,  # (JP, 4, HP)
    asking,  # (HP, AP)
    asking_bias,  # (AP)
    # state, written in place
    words,
    last_access,
    clock,
    scanned,  # (B) rows from the first that may not be blank
    queue_rows,
    queue_stamps,
    before_columns,
    before_weights,
    after_columns,
    after_weights,
    now_columns,
    now_weights,
    # scratch
    mark,
    changed,
    scratch_rows,
    scratch_weights,
    lengths,
    steps,
    B,
    N,
    queue_size,
    delta,
    R: tl.constexpr,
    K: tl.constexpr,
    W: tl.constexpr,
    HP: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    GP: tl.constexpr,  # gates of the interface
    SIZE: tl.constexpr,  # entries of a write
    ACCESSES: tl.constexpr,  # entries of a write and a read
    KL: tl.constexpr,  # 0 for SAM
    KLP: tl.constexpr,
    CP: tl.constexpr,
    CHANGED: tl.constexpr,
    SIMILARITY: tl.constexpr,
    PRODUCT: tl.constexpr,
    SEARCH: tl.constexpr,
    LINKED: tl.constexpr,  # rows of P changed together
):
    RW: tl.constexpr = RP * WP
    RK: tl.constexpr = RP * KP
    JP: tl.constexpr = HP + RW
    AP: tl.constexpr = 2 * RW + GP
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    start = tl.load(clock + b)
    used = tl.load(scanned + b)
    words += b * N * W
    last_access += b * N
    queue_rows += b * queue_size
    queue_stamps += b * queue_size
    if KL > 0:
        before_columns += b * N * KL
        before_weights += b * N * KL
        after_columns += b * N * KL
        after_weights += b * N * KL
        now_columns += b * KL
        now_weights += b * KL
        mark += b * N
        changed += b * CHANGED
        scratch_rows += b * RP * CP
        scratch_weights += b * RP * CP

    unit = tl.arange(0, HP)
    head = tl.arange(0, RP)
    k = tl.arange(0, KP)
    column = tl.arange(0, WP)
    gate = tl.arange(0, GP)
    flat = tl.arange(0, RW)
    head_k = head[:, None] * KP + k[None, :]
    head_word = head[:, None] * WP + column[None, :]
    head_k_word = head_k[:, :, None] * WP + column[None, None, :]
    real = (head < R)[:, None] & (k < K)[None, :]
    first_entry = tl.zeros([], tl.int32)  # of the queue
    last_entry = first_entry + N
    t = 0
    while t < length:
        tb = t * B + b
        after = tb + B
        first_entry = least_recent(
            queue_rows, queue_stamps, last_access, unused + tb * RP, first_entry, last_entry, R, 64
        )

        # 1: controller
        at = gates + tb * (4 * HP) + unit
        x = joint + tb * JP
        i = tl.sigmoid(tl.load(at) + vector_times_matrix(x, recurrent, 4 * HP, JP, HP, PRODUCT))
        f = tl.sigmoid(tl.load(at + HP) + vector_times_matrix(x, recurrent + HP, 4 * HP, JP, HP, PRODUCT))
        g = tanh(tl.load(at + 2 * HP) + vector_times_matrix(x, recurrent + 2 * HP, 4 * HP, JP, HP, PRODUCT))
        o = tl.sigmoid(tl.load(at + 3 * HP) + vector_times_matrix(x, recurrent + 3 * HP, 4 * HP, JP, HP, PRODUCT))
        cell = f * tl.load(cells + tb * HP + unit) + i * g
        tl.store(at, i)
        tl.store(at + HP, f)
        tl.store(at + 2 * HP, g)
        tl.store(at + 3 * HP, o)
        tl.store(cells + after * HP + unit, cell)
        tl.store(joint + after * JP + unit, o * tanh(cell))
        tl.debug_barrier()

        # interface: queries, write words, then beta = 1 + softplus, alpha and gamma = sigmoid, read modes as they are
        hidden = joint + after * JP
        ask = interface + tb * AP
        value = vector_times_matrix(hidden, asking, AP, HP, RW, PRODUCT) + tl.load(asking_bias + flat)
        tl.store(ask + flat, value)
        value = vector_times_matrix(hidden, asking + RW, AP, HP, RW, PRODUCT) + tl.load(asking_bias + RW + flat)
        tl.store(ask + RW + flat, value)
        value = vector_times_matrix(hidden, asking + 2 * RW, AP, HP, GP, PRODUCT)
        value += tl.load(asking_bias + 2 * RW + gate)
        value = tl.where(gate < RP, 1 + softplus(value), tl.where(gate < 3 * RP, tl.sigmoid(value), value))
        tl.store(ask + 2 * RW + gate, value)
        tl.debug_barrier()

        # 2 to 4: erase u, then write
        row, its_head, fresh, weight = write_entries(
            rows + tb * RK, weights + tb * RK, unused + tb * RP, ask + 2 * RW + RP, SIZE, R, RP, KP
        )
        there = row >= 0
        word = tl.load(ask + RW + its_head[:, None] * WP + column[None, :])
        added = summed_over_same(row, tl.where(there, weight, 0.0)[:, None] * word)
        same = (row[:, None] == row[None, :]) & there[:, None]
        erased = tl.sum((same & fresh[None, :]).to(tl.int32), 1) > 0
        place = words + row[:, None] * W + column[None, :]
        in_word = there[:, None] & (column < W)[None, :]
        old = tl.load(place, mask=in_word & (erased == 0)[:, None], other=0.0)
        tl.store(place, old + added, mask=in_word)
        used = tl.maximum(used, tl.max(row, 0) + 1)
        if KL > 0:
            index = tl.arange(0, SIZE)
            averaged = tl.sum(tl.where(same, weight[None, :], 0.0), 1) / R
            repeated = tl.sum((same & (index[None, :] < index[:, None])).to(tl.int32), 1) > 0
            update_links(
                row,
                averaged,
                repeated == 0,
                before_columns,
                before_weights,
                after_columns,
                after_weights,
                now_columns,
                now_weights,
                mark,
                changed,
                KL,
                KLP,
                LINKED,
            )
        tl.debug_barrier()

        # 5: read
        query = tl.load(ask + head_word)
        key = most_similar(query, words, tl.minimum(used + K, N), W, K, KP, WP, SEARCH, SIMILARITY)
        row = tl.where(real, key_row(key), -1)
        score = tl.where(real, key_number(key), 0.0)
        logit = tl.where(real, tl.load(ask + 2 * RW + head)[:, None] * score, -1e30)
        power = tl.where(real, tl.exp(logit - tl.max(logit, 1)[:, None]), 0.0)
        weight = power / tl.maximum(tl.sum(power, 1), 1e-30)[:, None]
        tl.store(scores + tb * RK + head_k, score)
        if KL > 0:
            chosen = words_at(words, row, W, WP)
            tl.store(content_rows + tb * RK + head_k, row)
            tl.store(content_weights + tb * RK + head_k, weight)
            tl.store(content_words + tb * RK * WP + head_k_word, chosen)
            row, weight = mixed_read(
                ask + 2 * RW + 3 * RP,
                row,
                weight,
                tl.load(rows + tb * RK + head_k),
                tl.load(weights + tb * RK + head_k),
                before_columns,
                before_weights,
                after_columns,
                after_weights,
                scratch_rows,
                scratch_weights,
                to_before + tb * RK * KP,
                to_after + tb * RK * KP,
                K,
                KL,
                KLP,
                CP,
            )
        chosen = words_at(words, row, W, WP)
        tl.store(rows + after * RK + head_k, row)
        tl.store(weights + after * RK + head_k, weight)
        tl.store(read_words + tb * RK * WP + head_k_word, chosen)
        tl.store(joint + after * JP + HP + head_word, tl.sum(weight[:, :, None] * chosen, 1))
        tl.debug_barrier()

        # 6: the ring
        row, _, _, weight = write_entries(
            rows + tb * RK, weights + tb * RK, unused + tb * RP, ask + 2 * RW + RP, ACCESSES, R, RP, KP
        )
        index = tl.arange(0, ACCESSES) - (RK + RP)
        read = (index >= 0) & (index < RK)
        row = tl.where(read, tl.load(rows + after * RK + index, mask=read, other=-1), row)
        weight = tl.where(read, tl.load(weights + after * RK + index, mask=read, other=0.0), weight)
        last_entry = touch(row, weight, delta, start + t + 1, queue_rows, queue_stamps, last_access, last_entry)
        tl.debug_barrier()
        t += 1
    tl.store(clock + b, start + length)
    while t < steps:  # padding: the products over all steps must not meet what was never written
        tl.store(joint + ((t + 1) * B + b) * JP + unit, tl.zeros([HP], tl.float32))
        tl.store(joint + ((t + 1) * B + b) * JP + HP + flat, tl.zeros([RW], tl.float32))
        t += 1
