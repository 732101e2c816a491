"""A whole sequence of a dense memory forward: controller, interface and the step of DAM, the NTM or the DNC.

The tape holds the state after every step, so that a step reads where the one before has written.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.dam import dam_activated, dam_forward
from sparsam.engines.cuda.dense.kernels.dnc import dnc_activated, dnc_forward
from sparsam.engines.cuda.dense.kernels.ntm import ntm_activated, ntm_forward
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
    MODEL: tl.constexpr,
    CONTROLLER: tl.constexpr,
    SIMILARITY: tl.constexpr,
    H: tl.constexpr,
    J: tl.constexpr,
    F: tl.constexpr,
    FS: tl.constexpr,
    R: tl.constexpr,
    W: tl.constexpr,
    N: tl.constexpr,
    HP: tl.constexpr,
    SP: tl.constexpr,
    FP: tl.constexpr,
    RP: tl.constexpr,
    WP: tl.constexpr,
    NP: tl.constexpr,
    LB: tl.constexpr,
    WRITERS: tl.constexpr,  # rows of the write weights
    SCORED: tl.constexpr,  # heads that address by content
    ROOM: tl.constexpr,  # rows of scratch
    PRODUCT: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + b)
    scratch += b * (ROOM * N)
    unit = tl.arange(0, HP)
    every_sum = tl.arange(0, SP)
    field = tl.arange(0, FP)
    t = 0
    while t < length:
        tb = t * B + b
        after = tb + B
        request = interface + tb * F
        at = gates + tb * (4 * H)
        told: tl.constexpr = 4 * H if CONTROLLER == "lstm" else 3 * H  # sums in which x has a part
        value = tl.load(at + every_sum, mask=every_sum < told, other=0.0)
        value += tl.load(recurrent_bias + every_sum, mask=every_sum < 4 * H, other=0.0)
        value += vector_times_matrix(joint + tb * J, recurrent, 4 * H, J, 4 * H, SP, PRODUCT)
        tl.store(at + every_sum, value, mask=every_sum < 4 * H)
        tl.debug_barrier()
        gates_forward(at, cells + tb * H, cells + after * H, joint + tb * J, joint + after * J, unit, H, CONTROLLER)
        tl.debug_barrier()
        value = vector_times_matrix(joint + after * J, interface_matrix, FS, H, F, FP, PRODUCT)
        value += tl.load(interface_bias + field, mask=field < F, other=0.0)
        if MODEL == "dam":
            value = dam_activated(value, field, 2 * R * W, R)
        elif MODEL == "ntm":
            value = ntm_activated(value, field, R, W)
        else:
            value = dnc_activated(value, field, R, W)
        tl.store(request + field, value, mask=field < F)
        tl.debug_barrier()
        if MODEL == "dam":
            dam_forward(
                request,
                words + tb * (N * W),
                weights + tb * (R * N),
                usage + tb * N,
                words + after * (N * W),
                weights + after * (R * N),
                usage + after * N,
                joint + after * J + H,
                scores + tb * (SCORED * N),
                unused + tb * R,
                discount,
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
            ntm_forward(
                request,
                words + tb * (N * W),
                weights + tb * (R * N),
                written + tb * (WRITERS * N),
                words + after * (N * W),
                weights + after * (R * N),
                written + after * (WRITERS * N),
                joint + after * J + H,
                scores + tb * (SCORED * N),
                contents + tb * (SCORED * N),
                gated + tb * (SCORED * N),
                R,
                W,
                N,
                RP,
                WP,
                NP,
            )
        else:
            dnc_forward(
                request,
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
                precedence + after * N,
                link + after * (N * N),
                joint + after * J + H,
                scores + tb * (SCORED * N),
                contents + tb * (SCORED * N),
                followed + tb * (2 * R * N),
                allocated + tb * N,
                scratch,
                R,
                W,
                N,
                RP,
                WP,
                NP,
                LB,
            )
        tl.debug_barrier()
        t += 1
    # padding: products over all steps, and the output layer, must not meet what was never written
    head, column = tl.arange(0, RP), tl.arange(0, WP)
    is_word = (head < R)[:, None] & (column < W)[None, :]
    while t < steps:
        place = joint + ((t + 1) * B + b) * J
        tl.store(place + unit, tl.zeros([HP], tl.float32), mask=unit < H)
        tl.store(place + H + head[:, None] * W + column[None, :], tl.zeros([RP, WP], tl.float32), mask=is_word)
        t += 1
