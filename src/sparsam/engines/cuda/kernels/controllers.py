"""A step of the controllers of many elements at once, as products of matrices: weights are read once for 16 elements.

Used where steps are launched one by one (`sparsam.engines.cuda.steps`); letters and layouts as in `kernels.cells`.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.products import tanh


@triton.jit
def _product(total, x, weights):
    """total + x weights, to the precision of float32."""
    return total + tl.dot(x, weights.to(tl.float32), input_precision="tf32x3")


@triton.jit(do_not_specialize=["t", "B"])
def controllers_forward(
    gates,  # (T, B, 4 H): x's share of the sums, then gates
    cells,
    joint,
    recurrent,  # (J, 4 H)
    bias,  # (4 H)
    lengths,
    B,
    t,
    CELL: tl.constexpr,
    H: tl.constexpr,
    J: tl.constexpr,
    ELEMENTS: tl.constexpr,
    UNITS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """h and c of step t for a block of elements and units; past an element's length they are 0."""
    e = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    is_element = e < B
    is_unit = (unit < H)[None, :]
    here = is_element[:, None] & is_unit
    active = is_element & (t < tl.load(lengths + e, mask=is_element, other=0))
    at = t * B + e
    first = tl.zeros([ELEMENTS, UNITS], tl.float32)
    second = tl.zeros([ELEMENTS, UNITS], tl.float32)
    third = tl.zeros([ELEMENTS, UNITS], tl.float32)
    fourth = tl.zeros([ELEMENTS, UNITS], tl.float32)
    for begin in tl.range(0, J, CHUNK):
        j = begin + tl.arange(0, CHUNK)
        x = tl.load(joint + at[:, None] * J + j[None, :], mask=active[:, None] & (j < J)[None, :], other=0.0)
        place = recurrent + j[:, None] * (4 * H) + unit[None, :]
        mask = (j < J)[:, None] & is_unit
        first = _product(first, x, tl.load(place, mask=mask, other=0.0))
        second = _product(second, x, tl.load(place + H, mask=mask, other=0.0))
        third = _product(third, x, tl.load(place + 2 * H, mask=mask, other=0.0))
        fourth = _product(fourth, x, tl.load(place + 3 * H, mask=mask, other=0.0))
    place = gates + at[:, None] * (4 * H) + unit[None, :]
    live = active[:, None] & is_unit
    first += tl.load(place, mask=live, other=0.0) + tl.load(bias + unit, mask=unit < H, other=0.0)[None, :]
    second += tl.load(place + H, mask=live, other=0.0) + tl.load(bias + H + unit, mask=unit < H, other=0.0)[None, :]
    third += tl.load(place + 2 * H, mask=live, other=0.0)
    third += tl.load(bias + 2 * H + unit, mask=unit < H, other=0.0)[None, :]
    fourth += tl.load(bias + 3 * H + unit, mask=unit < H, other=0.0)[None, :]
    after = at + B
    if CELL == "lstm":
        fourth += tl.load(place + 3 * H, mask=live, other=0.0)
        first, second, third, fourth = tl.sigmoid(first), tl.sigmoid(second), tanh(third), tl.sigmoid(fourth)
        c = second * tl.load(cells + at[:, None] * H + unit[None, :], mask=live, other=0.0) + first * third
        tl.store(cells + after[:, None] * H + unit[None, :], tl.where(live, c, 0.0), mask=here)
        h = fourth * tanh(c)
    else:
        first, second = tl.sigmoid(first), tl.sigmoid(second)
        third = tanh(third + first * fourth)
        before = tl.load(joint + at[:, None] * J + unit[None, :], mask=live, other=0.0)
        h = (1 - second) * third + second * before
    tl.store(place, first, mask=live)
    tl.store(place + H, second, mask=live)
    tl.store(place + 2 * H, third, mask=live)
    tl.store(place + 3 * H, fourth, mask=live)
    tl.store(joint + after[:, None] * J + unit[None, :], tl.where(live, h, 0.0), mask=here)


@triton.jit(do_not_specialize=["t", "B"])
def controllers_backward(
    gates,  # (T, B, 4 H) of the forward pass
    d_gates,  # (T, B, 4 H) gradients of the sums, written here
    cells,
    joint,
    recurrent,  # (4 H, JS)
    d_joint,
    d_hidden,  # of the final state
    d_cell,
    asked,  # (B, H): what h_t gets from the interface
    carry,  # (B, J), (B, H), (B, H): from the step after, of [h, r] by the products, of c, and of h beside the products
    carry_cell,
    direct,
    next_carry,  # the same for the step before; other memory, since all programs of an element read the former
    next_carry_cell,
    next_direct,
    lengths,
    B,
    t,
    CELL: tl.constexpr,
    H: tl.constexpr,
    J: tl.constexpr,
    JS: tl.constexpr,
    ELEMENTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Step t backward for a block of elements: the cells' gradients, and a block of columns of those of [h, r]."""
    e = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_element = e < B
    length = tl.load(lengths + e, mask=is_element, other=0)
    active = (is_element & (t < length))[:, None]
    final = (t == length - 1)[:, None]
    at = t * B + e
    total = tl.zeros([ELEMENTS, COLUMNS], tl.float32)
    for begin in tl.range(0, H, CHUNK):
        unit = begin + tl.arange(0, CHUNK)
        is_unit = (unit < H)[None, :]
        live = active & is_unit
        mine = e[:, None] * H + unit[None, :]
        dh = tl.load(d_hidden + mine, mask=live & final, other=0.0)
        dh += tl.load(carry + e[:, None] * J + unit[None, :], mask=live & (final == 0), other=0.0)
        dh += tl.load(direct + mine, mask=live & (final == 0), other=0.0)
        dh += tl.load(asked + mine, mask=live, other=0.0)
        dh += tl.load(d_joint + at[:, None] * J + unit[None, :], mask=live, other=0.0)
        dc = tl.load(d_cell + mine, mask=live & final, other=0.0)
        dc += tl.load(carry_cell + mine, mask=live & (final == 0), other=0.0)
        place = at[:, None] * (4 * H) + unit[None, :]
        first = tl.load(gates + place, mask=live, other=0.0)
        second = tl.load(gates + place + H, mask=live, other=0.0)
        third = tl.load(gates + place + 2 * H, mask=live, other=0.0)
        fourth = tl.load(gates + place + 3 * H, mask=live, other=0.0)
        kept = tl.zeros_like(dh)
        if CELL == "lstm":
            before = tl.load(cells + at[:, None] * H + unit[None, :], mask=live, other=0.0)
            squashed = tanh(tl.load(cells + (at + B)[:, None] * H + unit[None, :], mask=live, other=0.0))
            dc += dh * fourth * (1 - squashed * squashed)
            d_first, d_second = dc * third * first * (1 - first), dc * before * second * (1 - second)
            d_third, d_fourth = dc * first * (1 - third * third), dh * squashed * fourth * (1 - fourth)
            dc = dc * second
        else:
            before = tl.load(joint + at[:, None] * J + unit[None, :], mask=live, other=0.0)
            d_third = dh * (1 - second) * (1 - third * third)
            d_first, d_second = d_third * fourth * first * (1 - first), dh * (before - third) * second * (1 - second)
            d_fourth = d_third * first
            kept = dh * second
        if tl.program_id(1) == 0:
            here = is_element[:, None] & is_unit
            tl.store(d_gates + place, d_first, mask=here)
            tl.store(d_gates + place + H, d_second, mask=here)
            tl.store(d_gates + place + 2 * H, d_third, mask=here)
            tl.store(d_gates + place + 3 * H, d_fourth, mask=here)
            tl.store(next_carry_cell + mine, dc, mask=here)
            tl.store(next_direct + mine, kept, mask=here)
        weights = recurrent + unit[:, None] * JS + column[None, :]
        mask = (unit < H)[:, None] & (column < J)[None, :]
        total = _product(total, d_first, tl.load(weights, mask=mask, other=0.0))
        total = _product(total, d_second, tl.load(weights + H * JS, mask=mask, other=0.0))
        total = _product(total, d_third, tl.load(weights + 2 * H * JS, mask=mask, other=0.0))
        total = _product(total, d_fourth, tl.load(weights + 3 * H * JS, mask=mask, other=0.0))
    here = is_element[:, None] & (column < J)[None, :]
    tl.store(next_carry + e[:, None] * J + column[None, :], total, mask=here)
