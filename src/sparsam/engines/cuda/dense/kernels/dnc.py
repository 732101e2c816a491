"""A step of the DNC's memory (Graves 2016), forward and backward, by one program that holds all words of an element.

Pointers are those of the element at this step, as in `kernels.dam`.
"""

import triton
import triton.language as tl

from sparsam.engines.cuda.dense.kernels.allocating import allocation, allocation_gradient
from sparsam.engines.cuda.dense.kernels.content import (
    dots,
    read_words,
    similarities,
    similarities_gradient,
    softmax,
    softmax_gradient,
    summed_products,
)
from sparsam.engines.cuda.dense.kernels.links import link_backward, link_forward
from sparsam.engines.cuda.dense.kernels.places import places
from sparsam.engines.cuda.kernels.following import read_modes
from sparsam.engines.cuda.kernels.products import softplus


@triton.jit
def dnc_activated(value, field, R: tl.constexpr, W: tl.constexpr):
    """Strengths 1 + softplus, erase and gates sigmoid; the modes' softmax comes when they are used."""
    WRITER: tl.constexpr = R * W + R  # the write key, its strength, erase, word, free gates, two gates, modes
    strength = ((field >= R * W) & (field < WRITER)) | (field == WRITER + W)
    at = field - (WRITER + W + 1)
    gate = ((at >= 0) & (at < W)) | ((at >= 2 * W) & (at < 2 * W + R + 2))
    return tl.where(strength, 1 + softplus(value), tl.where(gate, tl.sigmoid(value), value))


@triton.jit
def _retained(weights, free, BESIDES: tl.constexpr, R: tl.constexpr, N: tl.constexpr, NP: tl.constexpr):
    """psi = prod_r (1 - f_r w_r(i)), (NP), over all heads besides one; weights and free gates at pointers."""
    n = tl.arange(0, NP)
    kept = tl.full([NP], 1.0, tl.float32)
    for h in tl.static_range(R):
        if h != BESIDES:
            kept *= 1 - tl.load(free + h) * tl.load(weights + h * N + n, mask=n < N, other=0.0)
    return kept


@triton.jit
def dnc_forward(request, state, next_state, next_read, tape, scratch, size: tl.constexpr):
    words, weights, written, usage, precedence, link = state
    next_words, next_weights, next_written, next_usage, next_precedence, next_link = next_state
    scores, contents, _, _, followed, allocated = tape  # the writer is the last of the R + 1 heads
    head, n, column, head_word, is_word, head_row, real, row_word, there = places(size)
    is_head, is_row = head < size.R, n < size.N
    writer = request + size.R * size.W + size.R
    gates = writer + 3 * size.W + 1  # of freeing, then of allocation and writing

    # usage and allocation
    was, w = tl.load(usage + n, mask=is_row, other=0.0), tl.load(written + n, mask=is_row, other=0.0)
    used = (was + w - was * w) * _retained(weights, gates, -1, size.R, size.N, size.NP)
    tl.store(next_usage + n, used, mask=is_row)
    free = allocation(used, scratch, size.N, size.NP)
    tl.store(allocated + n, free, mask=is_row)

    # the write
    memory = tl.load(words + row_word, mask=there, other=0.0)
    key = tl.load(writer + column, mask=column < size.W, other=0.0)[None, :]
    score = similarities(key, memory, "cosine")
    content = tl.sum(softmax(tl.load(writer + size.W) * score, is_row[None, :]), 0)
    tl.store(scores + size.R * size.N + n, tl.sum(score, 0), mask=is_row)
    tl.store(contents + size.R * size.N + n, content, mask=is_row)
    w = tl.load(gates + size.R + 1) * (content + tl.load(gates + size.R) * (free - content))
    tl.store(next_written + n, w, mask=is_row)
    erase = tl.load(writer + size.W + 1 + column, mask=column < size.W, other=0.0)
    word = tl.load(writer + 2 * size.W + 1 + column, mask=column < size.W, other=0.0)
    memory = memory * (1 - w[:, None] * erase[None, :]) + w[:, None] * word[None, :]
    tl.store(next_words + row_word, memory, mask=there)
    tl.debug_barrier()

    # links
    link_forward(link, precedence, next_written, weights, next_link, followed, size)
    before = tl.load(precedence + n, mask=is_row, other=0.0)
    tl.store(next_precedence + n, (1 - tl.sum(w, 0)) * before + w, mask=is_row)
    tl.debug_barrier()

    # the read
    keys = tl.load(request + head_word, mask=is_word, other=0.0)
    strength = tl.load(request + size.R * size.W + head, mask=is_head, other=1.0)
    score = similarities(keys, memory, "cosine")
    content = softmax(strength[:, None] * score, real)
    tl.store(scores + head_row, score, mask=real)
    tl.store(contents + head_row, content, mask=real)
    pi_b, pi_c, pi_f = read_modes(gates + size.R + 2, size.R, size.RP)
    back = tl.load(followed + head_row, mask=real, other=0.0)
    forth = tl.load(followed + size.R * size.N + head_row, mask=real, other=0.0)
    weight = pi_b[:, None] * back + pi_c[:, None] * content + pi_f[:, None] * forth
    tl.store(next_weights + head_row, weight, mask=real)
    tl.store(next_read + head_word, read_words(weight, memory), mask=is_word)


@triton.jit
def dnc_backward(request, dr, state, next_state, tape, scratch, gradients, size: tl.constexpr):
    words, weights, written, usage, precedence, link = state
    next_words, next_weights, next_written, next_usage, _, next_link = next_state
    scores, contents, _, _, followed, allocated = tape
    d_words, d_weights, d_written, d_usage, d_precedence, d_link = gradients
    head, n, column, head_word, is_word, head_row, real, row_word, there = places(size)
    is_head, is_row, is_column = head < size.R, n < size.N, column < size.W
    writer = request + size.R * size.W + size.R
    gates = writer + 3 * size.W + 1
    modes = gates + size.R + 2

    # the read
    memory = tl.load(next_words + row_word, mask=there, other=0.0)
    d_memory = tl.load(d_words + row_word, mask=there, other=0.0)
    weight = tl.load(next_weights + head_row, mask=real, other=0.0)
    dw = tl.where(real, tl.load(d_weights + head_row, mask=real, other=0.0) + dots(dr, memory), 0.0)
    d_memory += summed_products(weight, dr)
    pi_b, pi_c, pi_f = read_modes(modes, size.R, size.RP)
    content = tl.load(contents + head_row, mask=real, other=0.0)
    d_b = tl.sum(dw * tl.load(followed + head_row, mask=real, other=0.0), 1)
    d_c = tl.sum(dw * content, 1)
    d_f = tl.sum(dw * tl.load(followed + size.R * size.N + head_row, mask=real, other=0.0), 1)
    mean = pi_b * d_b + pi_c * d_c + pi_f * d_f
    tl.store(scratch + head_row, pi_f[:, None] * dw, mask=real)
    keys = tl.load(request + head_word, mask=is_word, other=0.0)
    strength = tl.load(request + size.R * size.W + head, mask=is_head, other=1.0)
    score = tl.load(scores + head_row, mask=real, other=0.0)
    d_logit = softmax_gradient(content, pi_c[:, None] * dw)
    d_strength = tl.sum(d_logit * score, 1) * (1 - tl.exp(1 - strength))
    d_keys, to_memory = similarities_gradient(strength[:, None] * d_logit, score, keys, memory, "cosine")
    d_memory += to_memory
    tl.debug_barrier()
    tl.store(modes + 3 * head, pi_b * (d_b - mean), mask=is_head)
    tl.store(modes + 3 * head + 1, pi_c * (d_c - mean), mask=is_head)
    tl.store(modes + 3 * head + 2, pi_f * (d_f - mean), mask=is_head)
    tl.store(request + head_word, d_keys, mask=is_word)
    tl.store(request + size.R * size.W + head, d_strength, mask=is_head)

    # links and precedence
    d_back, room, more = pi_b[:, None] * dw, scratch + size.R * size.N, scratch + 2 * size.R * size.N
    d_read, d_w, d_before = link_backward(
        link, precedence, next_written, weights, next_link, scratch, d_back, d_link, room, more, size
    )
    w = tl.load(next_written + n, mask=is_row, other=0.0)
    before = tl.load(precedence + n, mask=is_row, other=0.0)
    d_after = tl.load(d_precedence + n, mask=is_row, other=0.0)
    d_before += (1 - tl.sum(w, 0)) * d_after
    d_w += tl.where(is_row, d_after - tl.sum(d_after * before, 0), 0.0)
    d_w += tl.load(d_written + n, mask=is_row, other=0.0)
    tl.debug_barrier()
    tl.store(d_precedence + n, d_before, mask=is_row)

    # the write
    memory = tl.load(words + row_word, mask=there, other=0.0)
    erase = tl.load(writer + size.W + 1 + column, mask=is_column, other=0.0)
    word = tl.load(writer + 2 * size.W + 1 + column, mask=is_column, other=0.0)
    d_w += tl.sum(d_memory * (word[None, :] - memory * erase[None, :]), 1)
    d_erase = -tl.sum(d_memory * memory * w[:, None], 0) * erase * (1 - erase)
    d_word = tl.sum(d_memory * w[:, None], 0)
    d_memory *= 1 - w[:, None] * erase[None, :]
    write_gate, allocation_gate = tl.load(gates + size.R + 1), tl.load(gates + size.R)
    content = tl.load(contents + size.R * size.N + n, mask=is_row, other=0.0)
    free = tl.load(allocated + n, mask=is_row, other=0.0)
    mixed = content + allocation_gate * (free - content)
    d_write_gate = tl.sum(d_w * mixed, 0) * write_gate * (1 - write_gate)
    d_mixed = write_gate * d_w
    d_allocation_gate = tl.sum(d_mixed * (free - content), 0) * allocation_gate * (1 - allocation_gate)
    key = tl.load(writer + column, mask=is_column, other=0.0)[None, :]
    beta = tl.load(writer + size.W)
    score = tl.load(scores + size.R * size.N + n, mask=is_row, other=0.0)[None, :]
    d_logit = softmax_gradient(content[None, :], (1 - allocation_gate) * d_mixed[None, :])
    d_beta = tl.sum(tl.sum(d_logit * score, 1), 0) * (1 - tl.exp(1 - beta))
    d_key, to_memory = similarities_gradient(beta * d_logit, score, key, memory, "cosine")
    d_memory += to_memory
    tl.debug_barrier()
    tl.store(d_words + row_word, d_memory, mask=there)
    tl.store(writer + column, tl.sum(d_key, 0), mask=is_column)
    tl.store(writer + size.W, d_beta)
    tl.store(writer + size.W + 1 + column, d_erase, mask=is_column)
    tl.store(writer + 2 * size.W + 1 + column, d_word, mask=is_column)
    tl.store(gates + size.R, d_allocation_gate)
    tl.store(gates + size.R + 1, d_write_gate)

    # allocation, usage and what was freed
    used = tl.load(next_usage + n, mask=is_row, other=0.0)
    d_used = allocation_gradient(allocation_gate * d_mixed, used, scratch, size.N, size.NP)
    d_used += tl.load(d_usage + n, mask=is_row, other=0.0)
    was, w = tl.load(usage + n, mask=is_row, other=0.0), tl.load(written + n, mask=is_row, other=0.0)
    retained = _retained(weights, gates, -1, size.R, size.N, size.NP)
    d_retained = d_used * (was + w - was * w)
    d_free = tl.zeros([size.RP], tl.float32)
    for h in tl.static_range(size.R):
        through = d_retained * _retained(weights, gates, h, size.R, size.N, size.NP)
        gate = tl.load(gates + h)
        own = tl.load(weights + h * size.N + n, mask=is_row, other=0.0)
        d_free -= tl.where(head == h, tl.sum(through * own, 0) * gate * (1 - gate), 0.0)
        d_read -= tl.where((head == h)[:, None], (through * gate)[None, :], 0.0)
    tl.debug_barrier()
    tl.store(d_usage + n, d_used * (1 - w) * retained, mask=is_row)
    tl.store(d_written + n, d_used * (1 - was) * retained, mask=is_row)
    tl.store(d_weights + head_row, d_read, mask=real)
    tl.store(gates + head, d_free, mask=is_head)
