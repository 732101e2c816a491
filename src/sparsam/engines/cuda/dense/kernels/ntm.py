"""A step of the NTM's memory (Graves 2014), forward and backward, by one program that holds all words of an element.

Of the 2 R heads of the interface the first R read and the others write. Where a value of a neighbouring row is needed,
the weights go through memory. Pointers are those of the element at this step, as in `kernels.dam`.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.content import (
    dots,
    read_words,
    similarities,
    similarities_gradient,
    softmax,
    softmax_gradient,
    summed_products,
)
from sparsam.engines.cuda.dense.kernels.places import places
from sparsam.engines.cuda.kernels.following import read_modes
from sparsam.engines.cuda.kernels.products import softplus


@triton.jit
def ntm_activated(value, field, R: tl.constexpr, W: tl.constexpr):
    """Strengths softplus, gates sigmoid, exponents 1 + softplus, erase sigmoid; the taps' softmax comes when they are
    used, keys and add stay as they are.
    """
    HEADS: tl.constexpr = 2 * R
    at = field - HEADS * W
    result = tl.where((at >= 0) & (at < HEADS), softplus(value), value)
    result = tl.where((at >= HEADS) & (at < 2 * HEADS), tl.sigmoid(value), result)
    result = tl.where((at >= 5 * HEADS) & (at < 6 * HEADS), 1 + softplus(value), result)
    return tl.where((at >= 6 * HEADS) & (at < 6 * HEADS + R * W), tl.sigmoid(value), result)


@triton.jit
def _sharpened(
    weights,
    back,
    stay,
    forth,
    exponent,
    size: tl.constexpr,
):
    """Of gated weights at a pointer: themselves, those of the row after and before, and what eqs. 8 and 9 make of them:
    the shifted weights' largest, the weights divided by it, their powers, and the powers' sum.
    """
    head, n = tl.arange(0, size.RP), tl.arange(0, size.NP)
    real = (head < size.R)[:, None] & (n < size.N)[None, :]
    here = tl.load(weights + head[:, None] * size.N + n[None, :], mask=real, other=0.0)
    after = tl.load(weights + head[:, None] * size.N + ((n + 1) % size.N)[None, :], mask=real, other=0.0)
    before = tl.load(weights + head[:, None] * size.N + ((n + size.N - 1) % size.N)[None, :], mask=real, other=0.0)
    shifted = back[:, None] * after + stay[:, None] * here + forth[:, None] * before
    top = tl.where(head < size.R, tl.max(tl.where(real, shifted, 0.0), 1), 1.0)
    scaled = tl.where(real, shifted / top[:, None], 0.0)
    power = tl.where(scaled > 0, tl.exp(exponent[:, None] * tl.log(tl.where(scaled > 0, scaled, 1.0))), 0.0)
    total = tl.where(head < size.R, tl.sum(power, 1), 1.0)
    return here, after, before, top, scaled, power, total


@triton.jit
def _address(
    request,
    memory,  # (NP, WP)
    previous,
    scores,
    contents,
    gated,
    FIRST: tl.constexpr,  # of the R heads
    size: tl.constexpr,
):
    """Weights (RP, NP) by content, gated with the previous ones, shifted, sharpened (Graves 2014, eqs. 5 to 9)."""
    HEADS: tl.constexpr = 2 * size.R
    head, n, column = tl.arange(0, size.RP), tl.arange(0, size.NP), tl.arange(0, size.WP)
    is_head = head < size.R
    head_row, real = head[:, None] * size.N + n[None, :], is_head[:, None] & (n < size.N)[None, :]
    numbers = request + HEADS * size.W + FIRST + head  # strength, gate, and after the taps the exponent
    is_word = is_head[:, None] & (column < size.W)[None, :]
    key = tl.load(request + (FIRST + head)[:, None] * size.W + column[None, :], mask=is_word, other=0.0)
    strength = tl.load(numbers, mask=is_head, other=0.0)
    gate = tl.load(numbers + HEADS, mask=is_head, other=0.0)
    exponent = tl.load(numbers + 5 * HEADS, mask=is_head, other=1.0)
    back, stay, forth = read_modes(request + HEADS * size.W + 2 * HEADS + 3 * FIRST, size.R, size.RP)
    score = similarities(key, memory, "cosine")
    content = softmax(strength[:, None] * score, real)
    was = tl.load(previous + head_row, mask=real, other=0.0)
    tl.store(scores + head_row, score, mask=real)
    tl.store(contents + head_row, content, mask=real)
    tl.store(gated + head_row, was + gate[:, None] * (content - was), mask=real)
    tl.debug_barrier()
    _, _, _, _, _, power, total = _sharpened(gated, back, stay, forth, exponent, size)
    return power / total[:, None]


@triton.jit
def _address_backward(
    request,
    dw,  # (RP, NP)
    memory,
    previous,
    scores,
    contents,
    gated,
    scratch,
    d_previous,  # pointer: written
    FIRST: tl.constexpr,
    size: tl.constexpr,
):
    """Gradient (NP, WP) of the words; the request becomes its gradient where these heads have their part in it."""
    HEADS: tl.constexpr = 2 * size.R
    head, n, column = tl.arange(0, size.RP), tl.arange(0, size.NP), tl.arange(0, size.WP)
    is_head = head < size.R
    head_row, real = head[:, None] * size.N + n[None, :], is_head[:, None] & (n < size.N)[None, :]
    numbers = request + HEADS * size.W + FIRST + head
    keys = request + (FIRST + head)[:, None] * size.W + column[None, :]
    is_word = is_head[:, None] & (column < size.W)[None, :]
    taps = request + HEADS * size.W + 2 * HEADS + 3 * FIRST
    key = tl.load(keys, mask=is_word, other=0.0)
    strength = tl.load(numbers, mask=is_head, other=0.0)
    gate = tl.load(numbers + HEADS, mask=is_head, other=0.0)
    exponent = tl.load(numbers + 5 * HEADS, mask=is_head, other=1.0)
    back, stay, forth = read_modes(taps, size.R, size.RP)

    # eq. 9, its largest weight a constant
    here, after, before, top, scaled, power, total = _sharpened(gated, back, stay, forth, exponent, size)
    dw = tl.where(real, dw, 0.0)
    d_power = (dw - (tl.sum(dw * power, 1) / total)[:, None]) / total[:, None]
    d_exponent = tl.sum(d_power * power * tl.log(tl.where(scaled > 0, scaled, 1.0)), 1) * (1 - tl.exp(1 - exponent))
    slope = exponent[:, None] * power / tl.where(scaled > 0, scaled, 1.0)
    slope = tl.where(scaled > 0, slope, tl.where(exponent == 1, 1.0, 0.0)[:, None])
    d_shifted = tl.where(real, d_power * slope / top[:, None], 0.0)

    # eq. 8
    tl.store(scratch + head_row, d_shifted, mask=real)
    d_back, d_stay, d_forth = tl.sum(d_shifted * after, 1), tl.sum(d_shifted * here, 1), tl.sum(d_shifted * before, 1)
    mean = back * d_back + stay * d_stay + forth * d_forth
    tl.debug_barrier()
    d_after = tl.load(scratch + head[:, None] * size.N + ((n + 1) % size.N)[None, :], mask=real, other=0.0)
    d_before = tl.load(scratch + head[:, None] * size.N + ((n + size.N - 1) % size.N)[None, :], mask=real, other=0.0)
    d_gated = back[:, None] * d_before + stay[:, None] * d_shifted + forth[:, None] * d_after

    # eqs. 5 to 7
    content = tl.load(contents + head_row, mask=real, other=0.0)
    score = tl.load(scores + head_row, mask=real, other=0.0)
    was = tl.load(previous + head_row, mask=real, other=0.0)
    d_gate = tl.sum(d_gated * (content - was), 1) * gate * (1 - gate)
    d_logit = softmax_gradient(content, gate[:, None] * d_gated)
    d_strength = tl.sum(d_logit * score, 1) * (1 - tl.exp(-strength))
    d_key, d_memory = similarities_gradient(strength[:, None] * d_logit, score, key, memory, "cosine")
    tl.debug_barrier()
    tl.store(d_previous + head_row, (1 - gate)[:, None] * d_gated, mask=real)
    tl.store(keys, d_key, mask=is_word)
    tl.store(numbers, d_strength, mask=is_head)
    tl.store(numbers + HEADS, d_gate, mask=is_head)
    tl.store(taps + 3 * head, back * (d_back - mean), mask=is_head)
    tl.store(taps + 3 * head + 1, stay * (d_stay - mean), mask=is_head)
    tl.store(taps + 3 * head + 2, forth * (d_forth - mean), mask=is_head)
    tl.store(numbers + 5 * HEADS, d_exponent, mask=is_head)
    return d_memory


@triton.jit
def _kept(
    written,
    erase,
    BESIDES: tl.constexpr,
    size: tl.constexpr,
):
    """prod_h (1 - w_h(i) e_h), (NP, WP), over all heads besides one; weights and erase vectors at pointers."""
    n, column = tl.arange(0, size.NP), tl.arange(0, size.WP)
    kept = tl.full([size.NP, size.WP], 1.0, tl.float32)
    for h in tl.static_range(size.R):
        if h != BESIDES:
            weight = tl.load(written + h * size.N + n, mask=n < size.N, other=0.0)
            vector = tl.load(erase + h * size.W + column, mask=column < size.W, other=0.0)
            kept *= 1 - weight[:, None] * vector[None, :]
    return kept


@triton.jit
def ntm_forward(request, state, next_state, next_read, tape, size: tl.constexpr):
    words, weights, written, _, _, _ = state
    next_words, next_weights, next_written, _, _, _ = next_state
    scores, contents, gated, _, _, _ = tape  # of all 2 R heads
    _, _, _, head_word, is_word, head_row, real, row_word, there = places(size)
    erase = request + 2 * size.R * (size.W + 6)
    memory = tl.load(words + row_word, mask=there, other=0.0)
    weight = _address(
        request,
        memory,
        written,
        scores + size.R * size.N,
        contents + size.R * size.N,
        gated + size.R * size.N,
        size.R,
        size,
    )
    tl.store(next_written + head_row, weight, mask=real)
    tl.debug_barrier()
    add = tl.load(erase + size.R * size.W + head_word, mask=is_word, other=0.0)
    memory = memory * _kept(next_written, erase, -1, size) + summed_products(weight, add)
    tl.store(next_words + row_word, memory, mask=there)
    weight = _address(request, memory, weights, scores, contents, gated, 0, size)
    tl.store(next_weights + head_row, weight, mask=real)
    tl.store(next_read + head_word, read_words(weight, memory), mask=is_word)


@triton.jit
def ntm_backward(request, dr, state, next_state, tape, scratch, gradients, size: tl.constexpr):
    words, weights, written, _, _, _ = state
    next_words, next_weights, next_written, _, _, _ = next_state
    scores, contents, gated, _, _, _ = tape
    d_words, d_weights, d_written, _, _, _ = gradients
    head, n, column, head_word, is_word, head_row, real, row_word, there = places(size)
    erase = request + 2 * size.R * (size.W + 6)

    # the read
    memory = tl.load(next_words + row_word, mask=there, other=0.0)
    d_memory = tl.load(d_words + row_word, mask=there, other=0.0)
    weight = tl.load(next_weights + head_row, mask=real, other=0.0)
    dw = tl.load(d_weights + head_row, mask=real, other=0.0) + dots(dr, memory)
    d_memory += summed_products(weight, dr)
    d_memory += _address_backward(request, dw, memory, weights, scores, contents, gated, scratch, d_weights, 0, size)

    # eq. soft_write: M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h
    memory = tl.load(words + row_word, mask=there, other=0.0)
    weight = tl.load(next_written + head_row, mask=real, other=0.0)
    add = tl.load(erase + size.R * size.W + head_word, mask=is_word, other=0.0)
    d_add = read_words(weight, d_memory)
    dw = tl.load(d_written + head_row, mask=real, other=0.0) + dots(add, d_memory)
    d_erase = tl.zeros([size.RP, size.WP], tl.float32)
    for h in tl.static_range(size.R):
        through = d_memory * memory * _kept(next_written, erase, h, size)
        vector = tl.load(erase + h * size.W + column, mask=column < size.W, other=0.0)
        own = tl.load(next_written + h * size.N + n, mask=n < size.N, other=0.0)
        of_weight = tl.sum(through * vector[None, :], 1)
        of_vector = tl.sum(through * own[:, None], 0) * vector * (1 - vector)
        dw -= tl.where((head == h)[:, None], of_weight[None, :], 0.0)
        d_erase -= tl.where((head == h)[:, None], of_vector[None, :], 0.0)
    d_memory *= _kept(next_written, erase, -1, size)
    tl.debug_barrier()
    tl.store(erase + head_word, d_erase, mask=is_word)
    tl.store(erase + size.R * size.W + head_word, d_add, mask=is_word)
    scores, contents, gated = scores + size.R * size.N, contents + size.R * size.N, gated + size.R * size.N
    d_memory += _address_backward(
        request, dw, memory, written, scores, contents, gated, scratch, d_written, size.R, size
    )
    tl.store(d_words + row_word, d_memory, mask=there)
