"""Words in eight bits a component, for a first look at many: the direction alone, which is what a cosine compares."""

import triton
import triton.language as tl


@triton.jit
def code_of(words):
    """Words (X, WP) at length 127, rounded; the word 0 stays 0."""
    norm = tl.sqrt(tl.sum(words * words, 1))
    scaled = words * (127.0 / tl.where(norm > 0, norm, 1.0))[:, None]
    return tl.floor(scaled + 0.5).to(tl.int8)


@triton.jit(do_not_specialize=["count"])
def encode(
    words,  # (rows, W)
    codes,  # (rows, WP)
    count,
    W: tl.constexpr,
    WP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Codes of all words."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WP)
    there = (row < count)[:, None]
    word = tl.load(words + row[:, None] * W + column[None, :], mask=there & (column < W)[None, :], other=0.0)
    tl.store(codes + row[:, None] * WP + column[None, :], code_of(word), mask=there)
