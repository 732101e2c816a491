"""A whole sequence of a dense memory backward, newest step first.

Gates and interface of the tape become their gradients in place. Gradients of the state are kept in memory: at first
those of the state after the last step, then of every state before, at last of the one that the sequence started from.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.dam import dam_backward
from sparsam.engines.cuda.dense.kernels.dnc import dnc_backward
from sparsam.engines.cuda.dense.kernels.ntm import ntm_backward
from sparsam.engines.cuda.dense.kernels.places import state_at, tape_at
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
    PRODUCT: tl.constexpr,
    size: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    scratch += b * (size.ROOM * size.N)
    carry += b * size.J
    d_cell += b * size.H
    gradients = state_at(d_words, d_weights, d_written, d_usage, d_precedence, d_link, b, size)
    unit = tl.arange(0, size.HP)
    is_unit = unit < size.H
    head, column = tl.arange(0, size.RP), tl.arange(0, size.WP)
    head_word = head[:, None] * size.W + column[None, :]
    is_word = (head < size.R)[:, None] & (column < size.W)[None, :]
    field = tl.arange(0, size.FP)

    t = length
    while t < steps:  # padding changes nothing
        tb = t * B + b
        for part in tl.static_range(4):
            tl.store(gates + tb * (4 * size.H) + part * size.H + unit, tl.zeros([size.HP], tl.float32), mask=is_unit)
        tl.store(interface + tb * size.F + field, tl.zeros([size.FP], tl.float32), mask=field < size.F)
        t += 1

    dh = tl.load(carry + unit, mask=is_unit, other=0.0)
    dr = tl.load(carry + size.H + head_word, mask=is_word, other=0.0)
    dc = tl.zeros([size.HP], tl.float32)
    if size.CONTROLLER == "lstm":
        dc = tl.load(d_cell + unit, mask=is_unit, other=0.0)
    t = length - 1
    while t >= 0:
        tb = t * B + b
        after = tb + B
        request = interface + tb * size.F
        dr += tl.load(d_joint + tb * size.J + size.H + head_word, mask=is_word, other=0.0)
        state = state_at(words, weights, written, usage, precedence, link, tb, size)
        next_state = state_at(words, weights, written, usage, precedence, link, after, size)
        tape = tape_at(scores, contents, gated, unused, followed, allocated, tb, size)
        if size.MODEL == "dam":
            dam_backward(request, dr, state, next_state, tape, gradients, size)
        elif size.MODEL == "ntm":
            ntm_backward(request, dr, state, next_state, tape, scratch, gradients, size)
        else:
            dnc_backward(request, dr, state, next_state, tape, scratch, gradients, size)
        tl.debug_barrier()
        dh += tl.load(d_joint + tb * size.J + unit, mask=is_unit, other=0.0)
        dh += vector_times_matrix(request, interface_matrix, size.HS, size.F, size.H, size.HP, PRODUCT)
        at = gates + tb * (4 * size.H)
        direct, dc = gates_backward(dh, dc, gates, cells, joint, tb, after, unit, size.H, size.J, size.CONTROLLER)
        tl.debug_barrier()
        both = vector_times_matrix(at, recurrent, size.JS, 4 * size.H, size.J, size.JP, PRODUCT)
        column_j = tl.arange(0, size.JP)
        tl.store(carry + column_j, both, mask=column_j < size.J)
        tl.debug_barrier()
        dh = direct + tl.load(carry + unit, mask=is_unit, other=0.0)
        dr = tl.load(carry + size.H + head_word, mask=is_word, other=0.0)
        tl.debug_barrier()  # before the next step's product is stored there
        t -= 1
    tl.store(carry + unit, dh, mask=is_unit)
    if size.CONTROLLER == "lstm":
        tl.store(d_cell + unit, dc, mask=is_unit)
