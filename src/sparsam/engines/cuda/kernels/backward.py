"""A whole sequence backward, newest step first. Gates and interface of the tape become their gradients in place."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.following import read_modes
from sparsam.engines.cuda.kernels.products import tanh, vector_times_matrix
from sparsam.engines.cuda.kernels.rows import add_to_rows
from sparsam.engines.cuda.kernels.similarity_gradient import similarity_gradient


@triton.jit
def backward(
    # tape
    gates,
    cells,
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
    recurrent,  # (4 HP, JP)
    asking,  # (AP, HP)
    # gradients: of [h, r] at every step, of the final state (which become the initial one's) and of the memory
    d_joint,
    d_state,  # (B, JP)
    d_cell,  # (B, HP)
    d_weights,  # (B, RP, KP)
    d_words,  # (B, N, W)
    lengths,
    steps,
    B,
    N,
    R: tl.constexpr,
    W: tl.constexpr,
    HP: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    GP: tl.constexpr,
    KL: tl.constexpr,
    SIMILARITY: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    RW: tl.constexpr = RP * WP
    RK: tl.constexpr = RP * KP
    JP: tl.constexpr = HP + RW
    AP: tl.constexpr = 2 * RW + GP
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    d_words += b * N * W
    unit = tl.arange(0, HP)
    head = tl.arange(0, RP)
    k = tl.arange(0, KP)
    column = tl.arange(0, WP)
    gate = tl.arange(0, GP)
    flat = tl.arange(0, RW)
    head_k = head[:, None] * KP + k[None, :]
    flat_k = tl.arange(0, RK)
    head_word = head[:, None] * WP + column[None, :]
    head_k_word = head_k[:, :, None] * WP + column[None, None, :]

    t = length
    while t < steps:  # padding changes nothing
        tb = t * B + b
        for part in tl.static_range(4):
            tl.store(gates + tb * (4 * HP) + part * HP + unit, tl.zeros([HP], tl.float32))
        tl.store(interface + tb * AP + flat, tl.zeros([RW], tl.float32))
        tl.store(interface + tb * AP + RW + flat, tl.zeros([RW], tl.float32))
        tl.store(interface + tb * AP + 2 * RW + gate, tl.zeros([GP], tl.float32))
        t += 1

    dh = tl.load(d_state + b * JP + unit)
    dr = tl.load(d_state + b * JP + HP + flat)
    dc = tl.load(d_cell + b * HP + unit)
    dw = tl.load(d_weights + b * RK + head_k)
    t = length - 1
    while t >= 0:
        tb = t * B + b
        ask = interface + tb * AP
        dh += tl.load(d_joint + tb * JP + unit)
        dr += tl.load(d_joint + tb * JP + HP + flat)
        d_read = tl.reshape(dr, [RP, WP])

        # 5: r_h = sum_k w(k) M(row_k)
        words = tl.load(read_words + tb * RK * WP + head_k_word)
        weight = tl.load(weights + (tb + B) * RK + head_k)
        dw += tl.sum(d_read[:, None, :] * words, 2)
        query = tl.load(ask + head_word)
        beta = tl.load(ask + 2 * RW + head)
        score = tl.load(scores + tb * RK + head_k)
        to_words = weight[:, :, None] * d_read[:, None, :]
        previous = tl.load(weights + tb * RK + head_k)
        d_previous = tl.zeros([RP, KP], tl.float32)
        if KL > 0:
            # w^R = pi_b b + pi_c c + pi_f f at the rows read, c at the rows that the content read found
            read_row = tl.load(rows + (tb + B) * RK + head_k)
            found = read_row >= 0
            dw = tl.where(found, dw, 0.0)
            pi_b, pi_c, pi_f = read_modes(ask + 2 * RW + 3 * RP, RP)
            k_k = head[:, None, None] * (KP * KP) + k[None, :, None] * KP + k[None, None, :]
            back = tl.load(to_before + tb * RK * KP + k_k)  # (RP, read now, read before)
            forth = tl.load(to_after + tb * RK * KP + k_k)
            content_row = tl.load(content_rows + tb * RK + head_k)
            content = tl.load(content_weights + tb * RK + head_k)
            same = (read_row[:, :, None] == content_row[:, None, :]) & found[:, :, None]
            d_b = tl.sum(dw * tl.sum(back * previous[:, None, :], 2), 1)
            d_c = tl.sum(dw * tl.sum(tl.where(same, content[:, None, :], 0.0), 2), 1)
            d_f = tl.sum(dw * tl.sum(forth * previous[:, None, :], 2), 1)
            mean = pi_b * d_b + pi_c * d_c + pi_f * d_f
            modes = ask + 2 * RW + 3 * RP + head
            mixed = pi_b[:, None, None] * back + pi_f[:, None, None] * forth
            d_previous = tl.sum(dw[:, :, None] * mixed, 1)
            add_to_rows(d_words, tl.load(rows + (tb + B) * RK + flat_k), tl.reshape(to_words, [RK, WP]), W)
            dw = pi_c[:, None] * tl.sum(tl.where(same, dw[:, :, None], 0.0), 1)
            weight = content
            words = tl.load(content_words + tb * RK * WP + head_k_word)
            tl.debug_barrier()
            tl.store(modes, pi_b * (d_b - mean))
            tl.store(modes + RP, pi_c * (d_c - mean))
            tl.store(modes + 2 * RP, pi_f * (d_f - mean))
        d_logit = weight * (dw - tl.sum(weight * dw, 1)[:, None])
        d_beta = tl.sum(d_logit * score, 1) * (1 - tl.exp(1 - beta))
        d_query, d_found = similarity_gradient(beta[:, None] * d_logit, score, query, words, SIMILARITY)
        if KL > 0:
            found_rows = tl.load(content_rows + tb * RK + flat_k)
            add_to_rows(d_words, found_rows, tl.reshape(d_found, [RK, WP]), W)
        else:
            found_rows = tl.load(rows + (tb + B) * RK + flat_k)
            add_to_rows(d_words, found_rows, tl.reshape(to_words + d_found, [RK, WP]), W)
        tl.debug_barrier()

        # 4: M += sum_h w^W_h a_h^T after u was set to zero
        prior_row = tl.load(rows + tb * RK + head_k)
        prior = prior_row >= 0
        place = d_words + prior_row[:, :, None] * W + column[None, None, :]
        prior_gradient = tl.load(place, mask=prior[:, :, None] & (column < W)[None, None, :], other=0.0)
        fresh_row = tl.load(unused + tb * RP + head, mask=head < R, other=0)
        fresh_place = d_words + fresh_row[:, None] * W + column[None, :]
        fresh_mask = (head < R)[:, None] & (column < W)[None, :]
        fresh_gradient = tl.load(fresh_place, mask=fresh_mask, other=0.0)
        alpha = tl.load(ask + 2 * RW + RP + head)
        gamma = tl.load(ask + 2 * RW + 2 * RP + head)
        word = tl.load(ask + RW + head_word)
        previous = tl.where(prior, previous, 0.0)
        d_prior = tl.sum(prior_gradient * word[:, None, :], 2)
        d_fresh = tl.sum(fresh_gradient * word, 1)
        of_prior = tl.sum(d_prior * previous, 1)
        d_alpha = (gamma * of_prior + (1 - gamma) * d_fresh) * alpha * (1 - alpha)
        d_gamma = alpha * (of_prior - d_fresh) * gamma * (1 - gamma)
        kept = tl.where(prior, (alpha * gamma)[:, None], 0.0)
        d_previous += kept * d_prior
        d_word = tl.sum((kept * previous)[:, :, None] * prior_gradient, 1)
        d_word += (alpha * (1 - gamma))[:, None] * fresh_gradient
        tl.debug_barrier()
        tl.store(fresh_place, tl.zeros([RP, WP], tl.float32), mask=fresh_mask)
        tl.store(ask + head_word, d_query)
        tl.store(ask + RW + head_word, d_word)
        tl.store(ask + 2 * RW + head, d_beta)
        tl.store(ask + 2 * RW + RP + head, d_alpha)
        tl.store(ask + 2 * RW + 2 * RP + head, d_gamma)
        tl.debug_barrier()

        # 1: interface and controller
        dh += vector_times_matrix(ask, asking, HP, AP, HP, PRODUCT)
        at = gates + tb * (4 * HP) + unit
        i, f, g, o = tl.load(at), tl.load(at + HP), tl.load(at + 2 * HP), tl.load(at + 3 * HP)
        squashed = tanh(tl.load(cells + (tb + B) * HP + unit))
        dc += dh * o * (1 - squashed * squashed)
        tl.store(at, dc * g * i * (1 - i))
        tl.store(at + HP, dc * tl.load(cells + tb * HP + unit) * f * (1 - f))
        tl.store(at + 2 * HP, dc * i * (1 - g * g))
        tl.store(at + 3 * HP, dh * squashed * o * (1 - o))
        dc = dc * f
        dw = d_previous
        tl.debug_barrier()
        dh = vector_times_matrix(gates + tb * (4 * HP), recurrent, JP, 4 * HP, HP, PRODUCT)
        dr = vector_times_matrix(gates + tb * (4 * HP), recurrent + HP, JP, 4 * HP, RW, PRODUCT)
        t -= 1
    tl.store(d_state + b * JP + unit, dh)
    tl.store(d_state + b * JP + HP + flat, dr)
    tl.store(d_cell + b * HP + unit, dc)
    tl.store(d_weights + b * RK + head_k, dw)
