"""A step of the controllers of many elements at once, as products of matrices: weights are read once for 16 elements.

Used where steps are launched one by one (`sparsam.engines.cuda.steps`); letters and layouts as in `kernels.gates`. The
backward pass leaves the product to torch, which is faster than one kernel with the gates.
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
    CONTROLLER: tl.constexpr,
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
    if CONTROLLER == "lstm":
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
