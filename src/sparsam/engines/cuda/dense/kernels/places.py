"""Places in the tensors of one element and step, whose tape is `sparsam.engines.cuda.dense.tape`."""

import triton
import triton.language as tl


@triton.jit
def state_at(words, weights, written, usage, precedence, link, at, size: tl.constexpr):
    """The memory's fields of a state, of which each model has some."""
    rows: tl.constexpr = size.N
    of_weights, of_written = weights + at * (size.R * rows), written + at * (size.WRITERS * rows)
    words, usage = words + at * (rows * size.W), usage + at * rows
    return words, of_weights, of_written, usage, precedence + at * rows, link + at * (rows * rows)


@triton.jit
def tape_at(scores, contents, gated, unused, followed, allocated, at, size: tl.constexpr):
    """What the gradients of a step need besides the states before and after it."""
    scored: tl.constexpr = size.SCORED * size.N
    scores, contents, gated = scores + at * scored, contents + at * scored, gated + at * scored
    return scores, contents, gated, unused + at * size.R, followed + at * (2 * size.R * size.N), allocated + at * size.N


@triton.jit
def places(size: tl.constexpr):
    """Head, row and column; then of (R, W), (R, N) and (N, W) where each number is, and whether there is one."""
    head, n, column = tl.arange(0, size.RP), tl.arange(0, size.NP), tl.arange(0, size.WP)
    is_head, is_row, is_column = head < size.R, n < size.N, column < size.W
    head_word, is_word = head[:, None] * size.W + column[None, :], is_head[:, None] & is_column[None, :]
    head_row, real = head[:, None] * size.N + n[None, :], is_head[:, None] & is_row[None, :]
    row_word, there = n[:, None] * size.W + column[None, :], is_row[:, None] & is_column[None, :]
    return head, n, column, head_word, is_word, head_row, real, row_word, there
