"""A whole sequence of a dense memory backward, newest step first.

Gates and interface of the tape become their gradients in place. Gradients of the state are kept in memory: at first
those of the state after the last step, then of every state before, at last of the one that the sequence started from.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.dam import dam_backward
from sparsam.engines.cuda.dense.kernels.dnc import dnc_backward
from sparsam.engines.cuda.dense.kernels.ntm import ntm_backward
from sparsam.engines.cuda.kernels.gates import gates_backward
from sparsam.engines.cuda.kernels.products import vector_times_matrix


@triton.jit(do_not_specialize=["B", "steps"])
def dense_backward(
    # tape
    gates,
    cells,
    joint,
    interface,
    words,
    weights,
    written,
    usage,
    precedence,
    link,
    scores,
    contents,
    gated,
    unused,
    followed,
    allocated,
    scratch,
    # parameters
    recurrent,  # (4 H, JS)
    interface_matrix,  # (F, HS)
    # gradients: of [h, r] at every step, then of the state
    d_joint,
    carry,  # (B, J), of [h, r]
    d_cell,
    d_words,
    d_weights,
    d_written,
    d_usage,
    d_precedence,
    d_link,
    lengths,
    B,
    steps,
    MODEL: tl.constexpr,
    CONTROLLER: tl.constexpr,
    SIMILARITY: tl.constexpr,
    H: tl.constexpr,
    J: tl.constexpr,
    JS: tl.constexpr,
    HS: tl.constexpr,
    F: tl.constexpr,
    R: tl.constexpr,
    W: tl.constexpr,
    N: tl.constexpr,
    HP: tl.constexpr,
    JP: tl.constexpr,
    FP: tl.constexpr,
    RP: tl.constexpr,
    WP: tl.constexpr,
    NP: tl.constexpr,
    LB: tl.constexpr,
    WRITERS: tl.constexpr,
    SCORED: tl.constexpr,
    ROOM: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    scratch += b * (ROOM * N)
    carry += b * J
    d_cell += b * H
    d_words += b * (N * W)
    d_weights += b * (R * N)
    d_written += b * (WRITERS * N)
    d_usage += b * N
    d_precedence += b * N
    d_link += b * (N * N)
    unit = tl.arange(0, HP)
    is_unit = unit < H
    head, column = tl.arange(0, RP), tl.arange(0, WP)
    head_word = head[:, None] * W + column[None, :]
    is_word = (head < R)[:, None] & (column < W)[None, :]
    field = tl.arange(0, FP)

    t = length
    while t < steps:  # padding changes nothing
        tb = t * B + b
        for part in tl.static_range(4):
            tl.store(gates + tb * (4 * H) + part * H + unit, tl.zeros([HP], tl.float32), mask=is_unit)
        tl.store(interface + tb * F + field, tl.zeros([FP], tl.float32), mask=field < F)
        t += 1

    dh = tl.load(carry + unit, mask=is_unit, other=0.0)
    dr = tl.load(carry + H + head_word, mask=is_word, other=0.0)
    dc = tl.zeros([HP], tl.float32)
    if CONTROLLER == "lstm":
        dc = tl.load(d_cell + unit, mask=is_unit, other=0.0)
    t = length - 1
    while t >= 0:
        tb = t * B + b
        after = tb + B
        request = interface + tb * F
        dr += tl.load(d_joint + tb * J + H + head_word, mask=is_word, other=0.0)
        if MODEL == "dam":
            dam_backward(
                request,
                dr,
                weights + tb * (R * N),
                words + after * (N * W),
                weights + after * (R * N),
                scores + tb * (SCORED * N),
                unused + tb * R,
                d_words,
                d_weights,
                R,
                W,
                N,
                RP,
                WP,
                NP,
                R * W,
                2 * R * W,
                SIMILARITY,
            )
        elif MODEL == "ntm":
            ntm_backward(
                request,
                dr,
                words + tb * (N * W),
                weights + tb * (R * N),
                written + tb * (WRITERS * N),
                words + after * (N * W),
                weights + after * (R * N),
                written + after * (WRITERS * N),
                scores + tb * (SCORED * N),
                contents + tb * (SCORED * N),
                gated + tb * (SCORED * N),
                scratch,
                d_words,
                d_weights,
                d_written,
                R,
                W,
                N,
                RP,
                WP,
                NP,
            )
        else:
            dnc_backward(
                request,
                dr,
                words + tb * (N * W),
                weights + tb * (R * N),
                written + tb * (WRITERS * N),
                usage + tb * N,
                precedence + tb * N,
                link + tb * (N * N),
                words + after * (N * W),
                weights + after * (R * N),
                written + after * (WRITERS * N),
                usage + after * N,
                link + after * (N * N),
                scores + tb * (SCORED * N),
                contents + tb * (SCORED * N),
                followed + tb * (2 * R * N),
                allocated + tb * N,
                scratch,
                d_words,
                d_weights,
                d_written,
                d_usage,
                d_precedence,
                d_link,
                R,
                W,
                N,
                RP,
                WP,
                NP,
                LB,
            )
        tl.debug_barrier()
        dh += tl.load(d_joint + tb * J + unit, mask=is_unit, other=0.0)
        dh += vector_times_matrix(request, interface_matrix, HS, F, H, HP, PRODUCT)
        at = gates + tb * (4 * H)
        direct, dc = gates_backward(dh, dc, at, cells + tb * H, cells + after * H, joint + tb * J, unit, H, CONTROLLER)
        tl.debug_barrier()
        both = vector_times_matrix(at, recurrent, JS, 4 * H, J, JP, PRODUCT)
        column_j = tl.arange(0, JP)
        tl.store(carry + column_j, both, mask=column_j < J)
        tl.debug_barrier()
        dh = direct + tl.load(carry + unit, mask=is_unit, other=0.0)
        dr = tl.load(carry + H + head_word, mask=is_word, other=0.0)
        tl.debug_barrier()  # before the next step's product is stored there
        t -= 1
    tl.store(carry + unit, dh, mask=is_unit)
    if CONTROLLER == "lstm":
        tl.store(d_cell + unit, dc, mask=is_unit)
