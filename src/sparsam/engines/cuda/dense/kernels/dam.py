"""A step of DAM's memory (section 3.2), forward and backward, by one program that holds all words of an element.

Pointers are those of the element at this step: before it (`words`, `weights`, `usage`) and after it (`next_...`).
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
from sparsam.engines.cuda.kernels.products import softplus


@triton.jit
def dam_activated(value, field, STRENGTH_AT: tl.constexpr, R: tl.constexpr):
    """beta = 1 + softplus, alpha and gamma = sigmoid; queries and write words stay as they are."""
    gate = field - STRENGTH_AT
    activated = tl.where(gate < R, 1 + softplus(value), tl.sigmoid(value))
    return tl.where(gate >= 0, activated, value)


@triton.jit
def _fresh(row, n):
    """1 at the row (RP) that a head writes anew, (RP, NP); -1 for none."""
    return tl.where(row[:, None] == n[None, :], 1.0, 0.0)


@triton.jit
def dam_forward(request, state, next_state, next_read, tape, discount, size: tl.constexpr):
    words, weights, _, usage, _, _ = state
    next_words, next_weights, _, next_usage, _, _ = next_state
    scores, _, _, unused, _, _ = tape
    WORD_AT: tl.constexpr = size.R * size.W
    STRENGTH_AT: tl.constexpr = 2 * size.R * size.W
    head, n, _, head_word, is_word, head_row, real, row_word, there = places(size)
    is_head = head < size.R

    # the R rows of least usage, ties to the lowest
    used = tl.load(usage + n, mask=n < size.N, other=float("inf"))
    left = used
    row = tl.full([size.RP], -1, tl.int32)
    for h in tl.static_range(size.R):
        least = tl.argmin(left, 0).to(tl.int32)
        left = tl.where(n == least, float("inf"), left)
        row = tl.where(head == h, least, row)
    tl.store(unused + head, row, mask=is_head)

    # eq. lru_write_weights, then the write
    alpha = tl.load(request + STRENGTH_AT + size.R + head, mask=is_head, other=0.0)
    gamma = tl.load(request + STRENGTH_AT + 2 * size.R + head, mask=is_head, other=0.0)
    previous = tl.load(weights + head_row, mask=real, other=0.0)
    fresh = _fresh(row, n)
    written = (alpha * gamma)[:, None] * previous + (alpha * (1 - gamma))[:, None] * fresh
    word = tl.load(request + WORD_AT + head_word, mask=is_word, other=0.0)
    memory = tl.load(words + row_word, mask=there, other=0.0)
    memory = memory * (1 - tl.sum(fresh, 0))[:, None] + summed_products(written, word)
    tl.store(next_words + row_word, memory, mask=there)

    # the read
    query = tl.load(request + head_word, mask=is_word, other=0.0)
    beta = tl.load(request + STRENGTH_AT + head, mask=is_head, other=1.0)
    score = similarities(query, memory, size.SIMILARITY)
    weight = softmax(beta[:, None] * score, real)
    tl.store(scores + head_row, score, mask=real)
    tl.store(next_weights + head_row, weight, mask=real)
    tl.store(next_read + head_word, read_words(weight, memory), mask=is_word)
    tl.store(next_usage + n, discount * used + tl.sum(written + weight, 0), mask=n < size.N)


@triton.jit
def dam_backward(request, dr, state, next_state, tape, gradients, size: tl.constexpr):
    """The request becomes its gradient, before the activation."""
    _, weights, _, _, _, _ = state
    next_words, next_weights, _, _, _, _ = next_state
    scores, _, _, unused, _, _ = tape
    d_words, d_weights, _, _, _, _ = gradients
    WORD_AT: tl.constexpr = size.R * size.W
    STRENGTH_AT: tl.constexpr = 2 * size.R * size.W
    head, n, _, head_word, is_word, head_row, real, row_word, there = places(size)
    is_head = head < size.R

    memory = tl.load(next_words + row_word, mask=there, other=0.0)
    d_memory = tl.load(d_words + row_word, mask=there, other=0.0)
    weight = tl.load(next_weights + head_row, mask=real, other=0.0)
    score = tl.load(scores + head_row, mask=real, other=0.0)
    query = tl.load(request + head_word, mask=is_word, other=0.0)
    beta = tl.load(request + STRENGTH_AT + head, mask=is_head, other=1.0)
    dw = tl.load(d_weights + head_row, mask=real, other=0.0) + dots(dr, memory)
    d_memory += summed_products(weight, dr)
    d_logit = softmax_gradient(weight, dw)
    d_beta = tl.sum(d_logit * score, 1) * (1 - tl.exp(1 - beta))
    d_query, to_memory = similarities_gradient(beta[:, None] * d_logit, score, query, memory, size.SIMILARITY)
    d_memory += to_memory

    alpha = tl.load(request + STRENGTH_AT + size.R + head, mask=is_head, other=0.0)
    gamma = tl.load(request + STRENGTH_AT + 2 * size.R + head, mask=is_head, other=0.0)
    word = tl.load(request + WORD_AT + head_word, mask=is_word, other=0.0)
    previous = tl.load(weights + head_row, mask=real, other=0.0)
    fresh = _fresh(tl.load(unused + head, mask=is_head, other=-1), n)
    d_written = dots(word, d_memory)
    written = (alpha * gamma)[:, None] * previous + (alpha * (1 - gamma))[:, None] * fresh
    d_word = read_words(written, d_memory)
    of_previous, of_fresh = tl.sum(d_written * previous, 1), tl.sum(d_written * fresh, 1)
    d_alpha = (gamma * of_previous + (1 - gamma) * of_fresh) * alpha * (1 - alpha)
    d_gamma = alpha * (of_previous - of_fresh) * gamma * (1 - gamma)
    d_memory *= (1 - tl.sum(fresh, 0))[:, None]
    tl.debug_barrier()
    tl.store(d_words + row_word, d_memory, mask=there)
    tl.store(d_weights + head_row, (alpha * gamma)[:, None] * d_written, mask=real)
    tl.store(request + head_word, d_query, mask=is_word)
    tl.store(request + WORD_AT + head_word, d_word, mask=is_word)
    tl.store(request + STRENGTH_AT + head, d_beta, mask=is_head)
    tl.store(request + STRENGTH_AT + size.R + head, d_alpha, mask=is_head)
    tl.store(request + STRENGTH_AT + 2 * size.R + head, d_gamma, mask=is_head)
