"""A whole sequence of a dense memory forward: controller, interface and the step of DAM, the NTM or the DNC.

The tape holds the state after every step, so that a step reads where the one before has written.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.dam import dam_activated, dam_forward
from sparsam.engines.cuda.dense.kernels.dnc import dnc_activated, dnc_forward
from sparsam.engines.cuda.dense.kernels.ntm import ntm_activated, ntm_forward
from sparsam.engines.cuda.dense.kernels.places import state_at, tape_at
from sparsam.engines.cuda.kernels.gates import gates_forward
from sparsam.engines.cuda.kernels.products import vector_times_matrix


@triton.jit(do_not_specialize=["B", "steps"])
def dense_forward(
    # tape, time first: see `sparsam.engines.cuda.dense.tape`
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
    recurrent,  # (J, 4 H)
    recurrent_bias,  # (4 H)
    interface_matrix,  # (H, FS)
    interface_bias,  # (F)
    lengths,
    discount,
    B,
    steps,
    PRODUCT: tl.constexpr,
    size: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    scratch += b * (size.ROOM * size.N)
    unit = tl.arange(0, size.HP)
    every_sum = tl.arange(0, size.SP)
    field = tl.arange(0, size.FP)
    t = 0
    while t < length:
        tb = t * B + b
        after = tb + B
        request = interface + tb * size.F
        at = gates + tb * (4 * size.H)
        told: tl.constexpr = 4 * size.H if size.CONTROLLER == "lstm" else 3 * size.H  # sums in which x has a part
        value = tl.load(at + every_sum, mask=every_sum < told, other=0.0)
        value += tl.load(recurrent_bias + every_sum, mask=every_sum < 4 * size.H, other=0.0)
        value += vector_times_matrix(joint + tb * size.J, recurrent, 4 * size.H, size.J, 4 * size.H, size.SP, PRODUCT)
        tl.store(at + every_sum, value, mask=every_sum < 4 * size.H)
        tl.debug_barrier()
        gates_forward(gates, cells, joint, tb, after, unit, size.H, size.J, size.CONTROLLER)
        tl.debug_barrier()
        value = vector_times_matrix(joint + after * size.J, interface_matrix, size.FS, size.H, size.F, size.FP, PRODUCT)
        value += tl.load(interface_bias + field, mask=field < size.F, other=0.0)
        if size.MODEL == "dam":
            value = dam_activated(value, field, 2 * size.R * size.W, size.R)
        elif size.MODEL == "ntm":
            value = ntm_activated(value, field, size.R, size.W)
        else:
            value = dnc_activated(value, field, size.R, size.W)
        tl.store(request + field, value, mask=field < size.F)
        tl.debug_barrier()
        state = state_at(words, weights, written, usage, precedence, link, tb, size)
        next_state = state_at(words, weights, written, usage, precedence, link, after, size)
        tape = tape_at(scores, contents, gated, unused, followed, allocated, tb, size)
        next_read = joint + after * size.J + size.H
        if size.MODEL == "dam":
            dam_forward(request, state, next_state, next_read, tape, discount, size)
        elif size.MODEL == "ntm":
            ntm_forward(request, state, next_state, next_read, tape, size)
        else:
            dnc_forward(request, state, next_state, next_read, tape, scratch, size)
        tl.debug_barrier()
        t += 1
    # padding: products over all steps, and the output layer, must not meet what was never written
    head, column = tl.arange(0, size.RP), tl.arange(0, size.WP)
    is_word = (head < size.R)[:, None] & (column < size.W)[None, :]
    while t < steps:
        place = joint + ((t + 1) * B + b) * size.J
        tl.store(place + unit, tl.zeros([size.HP], tl.float32), mask=unit < size.H)
        tl.store(
            place + size.H + head[:, None] * size.W + column[None, :],
            tl.zeros([size.RP, size.WP], tl.float32),
            mask=is_word,
        )
        t += 1
