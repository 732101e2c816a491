"""The controllers, unit by unit. Four numbers to a unit lie H apart: what the products summed, then its gates.

LSTM: i, f, g, o.   GRU: r, z, and the new state's two sums, of [x, r_{t-1}] and of h_{t-1}, which r keeps apart.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.products import tanh


@triton.jit
def gates_forward(gates, cells, joint, at, after, unit, H: tl.constexpr, J: tl.constexpr, CONTROLLER: tl.constexpr):
    """Step `at` of the tape: sums become gates in place; writes c_t and h_t, to step `after`."""
    mask = unit < H
    gates += at * (4 * H)
    cell, next_cell = cells + at * H, cells + after * H
    hidden, next_hidden = joint + at * J, joint + after * J
    first = tl.load(gates + unit, mask=mask, other=0.0)
    second = tl.load(gates + H + unit, mask=mask, other=0.0)
    third = tl.load(gates + 2 * H + unit, mask=mask, other=0.0)
    fourth = tl.load(gates + 3 * H + unit, mask=mask, other=0.0)
    if CONTROLLER == "lstm":
        i, f, g, o = tl.sigmoid(first), tl.sigmoid(second), tanh(third), tl.sigmoid(fourth)
        c = f * tl.load(cell + unit, mask=mask, other=0.0) + i * g
        tl.store(gates + unit, i, mask=mask)
        tl.store(gates + H + unit, f, mask=mask)
        tl.store(gates + 2 * H + unit, g, mask=mask)
        tl.store(gates + 3 * H + unit, o, mask=mask)
        tl.store(next_cell + unit, c, mask=mask)
        tl.store(next_hidden + unit, o * tanh(c), mask=mask)
    else:
        r, z = tl.sigmoid(first), tl.sigmoid(second)
        n = tanh(third + r * fourth)
        tl.store(gates + unit, r, mask=mask)
        tl.store(gates + H + unit, z, mask=mask)
        tl.store(gates + 2 * H + unit, n, mask=mask)
        tl.store(next_hidden + unit, (1 - z) * n + z * tl.load(hidden + unit, mask=mask, other=0.0), mask=mask)


@triton.jit
def gates_backward(
    dh, dc, gates, cells, joint, at, after, unit, H: tl.constexpr, J: tl.constexpr, CONTROLLER: tl.constexpr
):
    """Gates become the gradients of their sums in place; returns what h_{t-1} gets directly, and c_{t-1}'s gradient."""
    mask = unit < H
    gates += at * (4 * H)
    cell, next_cell, hidden = cells + at * H, cells + after * H, joint + at * J
    first = tl.load(gates + unit, mask=mask, other=0.0)
    second = tl.load(gates + H + unit, mask=mask, other=0.0)
    third = tl.load(gates + 2 * H + unit, mask=mask, other=0.0)
    fourth = tl.load(gates + 3 * H + unit, mask=mask, other=0.0)
    if CONTROLLER == "lstm":
        squashed = tanh(tl.load(next_cell + unit, mask=mask, other=0.0))
        before = tl.load(cell + unit, mask=mask, other=0.0)
        dc += dh * fourth * (1 - squashed * squashed)
        tl.store(gates + unit, dc * third * first * (1 - first), mask=mask)
        tl.store(gates + H + unit, dc * before * second * (1 - second), mask=mask)
        tl.store(gates + 2 * H + unit, dc * first * (1 - third * third), mask=mask)
        tl.store(gates + 3 * H + unit, dh * squashed * fourth * (1 - fourth), mask=mask)
        return tl.zeros_like(dh), dc * second
    else:
        before = tl.load(hidden + unit, mask=mask, other=0.0)
        dn = dh * (1 - second) * (1 - third * third)
        tl.store(gates + unit, dn * fourth * first * (1 - first), mask=mask)
        tl.store(gates + H + unit, dh * (before - third) * second * (1 - second), mask=mask)
        tl.store(gates + 2 * H + unit, dn, mask=mask)
        tl.store(gates + 3 * H + unit, dn * first, mask=mask)
        return dh * second, dc


@triton.jit(do_not_specialize=["t", "B"])
def batch_gates_backward(
    gates,
    cells,
    joint,
    d_joint,
    d_hidden,  # of the final state
    d_cell,
    dh,  # from the interface
    direct,  # what h_{t-1} gets beside the products; in: what h_t got from the step after
    carry,  # (B, J) from the products of the step after
    carry_cell,
    lengths,
    B,
    t,
    CONTROLLER: tl.constexpr,
    H: tl.constexpr,
    J: tl.constexpr,
    HP: tl.constexpr,
):
    """Step t of all elements' controllers backward, one program each."""
    b = tl.program_id(0).to(tl.int64)
    unit = tl.arange(0, HP)
    mask = unit < H
    tb = t * B + b
    length = tl.load(lengths + b)
    at = gates + tb * (4 * H)
    if t < length:
        if t == length - 1:
            later = tl.load(d_hidden + b * H + unit, mask=mask, other=0.0)
            dc = tl.load(d_cell + b * H + unit, mask=mask, other=0.0)
        else:
            later = tl.load(carry + b * J + unit, mask=mask, other=0.0)
            later += tl.load(direct + b * H + unit, mask=mask, other=0.0)
            dc = tl.load(carry_cell + b * H + unit, mask=mask, other=0.0)
        total = later + tl.load(dh + b * H + unit, mask=mask, other=0.0)
        total += tl.load(d_joint + tb * J + unit, mask=mask, other=0.0)
        kept, dc = gates_backward(total, dc, gates, cells, joint, tb, tb + B, unit, H, J, CONTROLLER)
        tl.store(direct + b * H + unit, kept, mask=mask)
        tl.store(carry_cell + b * H + unit, dc, mask=mask)
    else:
        for part in tl.static_range(4):
            tl.store(at + part * H + unit, tl.zeros([HP], tl.float32), mask=mask)
