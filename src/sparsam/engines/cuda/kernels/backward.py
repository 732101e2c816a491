"""A whole sequence backward, newest step first. Gates and interface of the tape become their gradients in place.

With CONTROLLER "outside" (`kernels.controllers`) a step ends with what h gets from the interface, which goes to
`carry_cell`.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.following import read_modes
from sparsam.engines.cuda.kernels.gates import gates_backward
from sparsam.engines.cuda.kernels.link_gradients import add_followed, update_gradient
from sparsam.engines.cuda.kernels.products import vector_times_matrix
from sparsam.engines.cuda.kernels.rows import add_to_rows, averaged_over_heads, write_entries
from sparsam.engines.cuda.kernels.search import similarity_gradient
from sparsam.engines.cuda.kernels.usage import room_gradient


@triton.jit(do_not_specialize=["begin", "end", "B", "M"])
def backward(
    # tape
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
    to_predecessors,
    to_successors,
    room,
    usage_before,
    journal_columns,
    journal_weights,
    # parameters
    recurrent,  # (4 H, JS)
    interface_matrix,  # (F, HS)
    # gradients: of [h, r] at every step, of the final state, of what a step hands back, and of the memory
    d_joint,
    d_hidden,  # (B, H)
    d_cell,
    d_read,  # (B, R, W)
    d_weights,  # (B, R, K)
    carry,  # (B, J): of [h, r] of the step before; likewise of cell and weights
    carry_cell,
    carry_weights,  # (B, RP, KP)
    d_words,  # (B, M, W)
    # where LG: columns of the links (B, M, KL), p (B, KL), taken back step by step, and their gradients
    predecessor_columns,
    d_predecessors,
    successor_columns,
    d_successors,
    precedence_columns,
    d_precedence,
    limits,  # (T, B) on what a step hands back to [h, r] of the step before, where CLIP
    lengths,
    B,
    M,
    begin,
    end,
    CONTROLLER: tl.constexpr,
    CLIP: tl.constexpr,
    SIMILARITY: tl.constexpr,
    PRODUCT: tl.constexpr,
    size: tl.constexpr,
):
    RK: tl.constexpr = size.RP * size.KP
    FUSED: tl.constexpr = CONTROLLER == "lstm" or CONTROLLER == "gru"
    WORDS: tl.constexpr = size.R * size.W
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    d_words += b * M * size.W
    if size.LG:
        predecessor_columns += b * M * size.KL
        d_predecessors += b * M * size.KL
        successor_columns += b * M * size.KL
        d_successors += b * M * size.KL
        precedence_columns += b * size.KL
        d_precedence += b * size.KL
        predecessors, successors = (predecessor_columns, d_predecessors), (successor_columns, d_successors)
        precedence = (precedence_columns, d_precedence)
    carry += b * size.J
    carry_cell += b * size.H
    carry_weights += b * RK
    unit = tl.arange(0, size.HP)
    head = tl.arange(0, size.RP)
    k = tl.arange(0, size.KP)
    column = tl.arange(0, size.WP)
    flat_k = tl.arange(0, RK)
    head_k = head[:, None] * size.KP + k[None, :]
    head_word = head[:, None] * size.W + column[None, :]
    is_head = head < size.R
    is_word = is_head[:, None] & (column < size.W)[None, :]
    is_unit = unit < size.H
    real = is_head[:, None] & (k < size.K)[None, :]
    head_k_word = head_k[:, :, None] * size.WP + column[None, None, :]

    t = tl.maximum(length, begin)
    while t < end:  # padding changes nothing
        tb = t * B + b
        if FUSED:
            for part in tl.static_range(4):
                tl.store(
                    gates + tb * (4 * size.H) + part * size.H + unit, tl.zeros([size.HP], tl.float32), mask=is_unit
                )
        field = tl.arange(0, size.FP)
        tl.store(interface + tb * size.F + field, tl.zeros([size.FP], tl.float32), mask=field < size.F)
        t += 1

    dh = tl.zeros([size.HP], tl.float32)
    dc = tl.zeros([size.HP], tl.float32)
    t = tl.minimum(length, end) - 1
    if t >= begin:
        if t == length - 1:
            dr = tl.load(d_read + b * WORDS + head_word, mask=is_word, other=0.0)
            dw = tl.load(d_weights + b * (size.R * size.K) + head[:, None] * size.K + k[None, :], mask=real, other=0.0)
            if FUSED:
                dh = tl.load(d_hidden + b * size.H + unit, mask=is_unit, other=0.0)
                dc = tl.load(d_cell + b * size.H + unit, mask=is_unit, other=0.0)
        else:
            dr = tl.load(carry + size.H + head_word, mask=is_word, other=0.0)
            dw = tl.load(carry_weights + head_k)
            if FUSED:
                dh = tl.load(carry + unit, mask=is_unit, other=0.0)
                dc = tl.load(carry_cell + unit, mask=is_unit, other=0.0)
        while t >= begin:
            tb = t * B + b
            request = interface + tb * size.F
            dr += tl.load(d_joint + tb * size.J + size.H + head_word, mask=is_word, other=0.0)

            # 5: r_h = sum_k w(k) M(row_k)
            words = tl.load(read_words + tb * RK * size.WP + head_k_word)
            weight = tl.load(weights + (tb + B) * RK + head_k)
            dw += tl.sum(dr[:, None, :] * words, 2)
            query = tl.load(request + head_word, mask=is_word, other=0.0)
            beta = tl.load(request + size.STRENGTH_AT + head, mask=is_head, other=1.0)
            score = tl.load(scores + tb * RK + head_k)
            to_words = weight[:, :, None] * dr[:, None, :]
            previous = tl.load(weights + tb * RK + head_k)
            d_previous = tl.zeros([size.RP, size.KP], tl.float32)
            if size.KL > 0:
                # w^R = pi_b b + pi_c c + pi_f f at the rows read, c at the rows that the content read found
                read_row = tl.load(rows + (tb + B) * RK + head_k)
                found = read_row >= 0
                dw = tl.where(found, dw, 0.0)
                modes = request + size.MODES_AT
                pi_b, pi_c, pi_f = read_modes(modes, size.R, size.RP)
                k_k = head[:, None, None] * (size.KP * size.KP) + k[None, :, None] * size.KP + k[None, None, :]
                back = tl.load(to_predecessors + tb * RK * size.KP + k_k)  # (RP, read now, read before)
                forth = tl.load(to_successors + tb * RK * size.KP + k_k)
                content_row = tl.load(content_rows + tb * RK + head_k)
                content = tl.load(content_weights + tb * RK + head_k)
                same = (read_row[:, :, None] == content_row[:, None, :]) & found[:, :, None]
                d_b = tl.sum(dw * tl.sum(back * previous[:, None, :], 2), 1)
                d_c = tl.sum(dw * tl.sum(tl.where(same, content[:, None, :], 0.0), 2), 1)
                d_f = tl.sum(dw * tl.sum(forth * previous[:, None, :], 2), 1)
                mean = pi_b * d_b + pi_c * d_c + pi_f * d_f
                mixed = pi_b[:, None, None] * back + pi_f[:, None, None] * forth
                d_previous = tl.sum(dw[:, :, None] * mixed, 1)
                add_to_rows(
                    d_words, tl.load(rows + (tb + B) * RK + flat_k), tl.reshape(to_words, [RK, size.WP]), size.W
                )
                if size.LG:
                    before, now = rows + tb * RK, rows + (tb + B) * RK
                    was = weights + tb * RK
                    add_followed(predecessors, before, was, now, dw, pi_b, size.KL, size.KLP)
                    add_followed(successors, before, was, now, dw, pi_f, size.KL, size.KLP)
                dw = pi_c[:, None] * tl.sum(tl.where(same, dw[:, :, None], 0.0), 1)
                weight = content
                words = tl.load(content_words + tb * RK * size.WP + head_k_word)
                tl.debug_barrier()
                tl.store(modes + 3 * head, pi_b * (d_b - mean), mask=is_head)
                tl.store(modes + 3 * head + 1, pi_c * (d_c - mean), mask=is_head)
                tl.store(modes + 3 * head + 2, pi_f * (d_f - mean), mask=is_head)
            d_logit = weight * (dw - tl.sum(weight * dw, 1)[:, None])
            d_beta = tl.sum(d_logit * score, 1) * (1 - tl.exp(1 - beta))
            d_query, d_found = similarity_gradient(beta[:, None] * d_logit, score, query, words, SIMILARITY)
            if size.KL > 0:
                found_rows = tl.load(content_rows + tb * RK + flat_k)
                add_to_rows(d_words, found_rows, tl.reshape(d_found, [RK, size.WP]), size.W)
            else:
                found_rows = tl.load(rows + (tb + B) * RK + flat_k)
                add_to_rows(d_words, found_rows, tl.reshape(to_words + d_found, [RK, size.WP]), size.W)
            tl.debug_barrier()

            # 4: M += sum_h w^W_h a_h^T after u was set to zero
            prior_row = tl.load(rows + tb * RK + head_k)
            prior = prior_row >= 0
            place = d_words + prior_row[:, :, None] * size.W + column[None, None, :]
            prior_gradient = tl.load(place, mask=prior[:, :, None] & (column < size.W)[None, None, :], other=0.0)
            fresh_row = tl.load(unused + tb * size.RP + head, mask=is_head, other=0)
            fresh_place = d_words + fresh_row[:, None] * size.W + column[None, :]
            fresh_gradient = tl.load(fresh_place, mask=is_word, other=0.0)
            alpha = tl.load(request + size.ALPHA_AT + head, mask=is_head, other=0.0)
            gamma = tl.load(request + size.GAMMA_AT + head, mask=is_head, other=0.0)
            word = tl.load(request + size.WORD_AT + head_word, mask=is_word, other=0.0)
            previous = tl.where(prior, previous, 0.0)
            d_prior = tl.sum(prior_gradient * word[:, None, :], 2)
            d_fresh = tl.sum(fresh_gradient * word, 1)
            if size.LG:
                before, was, anew, gate = (
                    rows + tb * RK,
                    weights + tb * RK,
                    unused + tb * size.RP,
                    request + size.ALPHA_AT,
                )
                space = room + tb * size.RP
                written, _, _, write_weight = write_entries(
                    before, was, anew, gate, space, size.SIZE, size.R, size.RP, size.KP, size.FREE
                )
                averaged, first = averaged_over_heads(written, write_weight, size.R)
                journal = (journal_columns + tb * size.JOURNAL, journal_weights + tb * size.JOURNAL)
                d_write = update_gradient(written, averaged, first, journal, predecessors, successors, precedence, size)
                # all entries of a row have a share in its weight
                same = (written[:, None] == written[None, :]) & (written >= 0)[:, None]
                d_write = tl.sum(tl.where(same, d_write[None, :], 0.0), 1) / size.R
                index = tl.arange(0, size.SIZE)
                d_prior += tl.sum(tl.where(head_k[:, :, None] == index[None, None, :], d_write[None, None, :], 0.0), 2)
                d_fresh += tl.sum(tl.where((RK + head)[:, None] == index[None, :], d_write[None, :], 0.0), 1)
            of_prior = tl.sum(d_prior * previous, 1)
            kept = tl.where(prior, (alpha * gamma)[:, None], 0.0)
            d_previous += kept * d_prior
            d_word = tl.sum((kept * previous)[:, :, None] * prior_gradient, 1)
            anew = alpha * (1 - gamma)
            if size.FREE:
                has_room = tl.load(room + tb * size.RP + head, mask=is_head, other=1.0)
                free_gates = request + size.FREE_AT + head
                to_room, left = anew * d_fresh, tl.load(usage_before + tb * size.RP + head, mask=is_head, other=0.0)
                free = tl.load(free_gates, mask=is_head, other=0.0)
                d_free, d_read_before = room_gradient(
                    to_room, has_room, left, fresh_row, prior_row, previous, free, size.RP
                )
                d_previous += d_read_before
                anew *= has_room
                d_fresh *= has_room
            d_alpha = (gamma * of_prior + (1 - gamma) * d_fresh) * alpha * (1 - alpha)
            d_gamma = alpha * (of_prior - d_fresh) * gamma * (1 - gamma)
            d_word += anew[:, None] * fresh_gradient
            tl.debug_barrier()
            tl.store(fresh_place, tl.zeros([size.RP, size.WP], tl.float32), mask=is_word)
            tl.store(request + head_word, d_query, mask=is_word)
            tl.store(request + size.WORD_AT + head_word, d_word, mask=is_word)
            tl.store(request + size.STRENGTH_AT + head, d_beta, mask=is_head)
            tl.store(request + size.ALPHA_AT + head, d_alpha, mask=is_head)
            tl.store(request + size.GAMMA_AT + head, d_gamma, mask=is_head)
            if size.FREE:
                tl.store(free_gates, d_free, mask=is_head)
            tl.debug_barrier()
            dw = d_previous

            # 1: interface and controller
            if FUSED:
                dh += tl.load(d_joint + tb * size.J + unit, mask=is_unit, other=0.0)
                dh += vector_times_matrix(request, interface_matrix, size.HS, size.F, size.H, size.HP, PRODUCT)
                at = gates + tb * (4 * size.H)
                direct, dc = gates_backward(dh, dc, gates, cells, joint, tb, tb + B, unit, size.H, size.J, CONTROLLER)
                tl.debug_barrier()
                both = vector_times_matrix(at, recurrent, size.JS, 4 * size.H, size.J, size.JP, PRODUCT)
                column_j = tl.arange(0, size.JP)
                tl.store(carry + column_j, both, mask=column_j < size.J)
                tl.debug_barrier()
                dh = direct + tl.load(carry + unit, mask=is_unit, other=0.0)
                dr = tl.load(carry + size.H + head_word, mask=is_word, other=0.0)
                if CLIP:
                    most = tl.load(limits + tb)
                    dh = tl.where(dh > most, most, tl.where(dh < -most, -most, dh))
                    dr = tl.where(dr > most, most, tl.where(dr < -most, -most, dr))
            else:
                if CONTROLLER == "outside":
                    to_hidden = vector_times_matrix(
                        request, interface_matrix, size.HS, size.F, size.H, size.HP, PRODUCT
                    )
                    tl.store(carry_cell + unit, to_hidden, mask=is_unit)
                dr = tl.zeros([size.RP, size.WP], tl.float32)
            t -= 1
        tl.debug_barrier()
        tl.store(carry + size.H + head_word, dr, mask=is_word)
        tl.store(carry_weights + head_k, dw)
        if FUSED:
            tl.store(carry + unit, dh, mask=is_unit)
            tl.store(carry_cell + unit, dc, mask=is_unit)
