"""Exact search: the K most similar words for every head."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.ordering import NOTHING, largest, sort_key

EPSILON = tl.constexpr(1e-6)  # as in `sparsam.engines.reference.addressing`


@triton.jit
def similarity(dot, query_norm, word_norm, SIMILARITY: tl.constexpr):
    """cosine: q·m / (|q| |m| + 1e-6);   euclidean: -|q - m|^2;   dot: q·m."""
    if SIMILARITY == "cosine":
        return dot / (query_norm * word_norm + EPSILON)
    elif SIMILARITY == "euclidean":
        return 2 * dot - query_norm * query_norm - word_norm * word_norm
    else:
        return dot


@triton.jit
def _words(words, row, end, W: tl.constexpr, WP: tl.constexpr):
    """Words (BLOCK, WP) at rows below `end`."""
    column = tl.arange(0, WP)
    mask = (row < end)[:, None] & (column < W)[None, :]
    return tl.load(words + row[:, None] * W + column[None, :], mask=mask, other=0.0)


@triton.jit
def most_similar(
    query,  # (RP, WP)
    words,  # of this element, (M, W)
    begin,  # rows to look at
    end,
    W: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    BLOCK: tl.constexpr,
    SIMILARITY: tl.constexpr,
):
    """Keys (RP, KP) of the K most similar of the rows from `begin` to `end`, best first.

    Every place of a block keeps the K best of the rows that came by there; the K best of all are chosen at the end, so
    that threads meet once and not for every block.
    """
    heads: tl.constexpr = query.shape[0]
    # Below every key, and each different: a new key takes the place of the smallest alone.
    best = tl.zeros([heads, BLOCK, KP], tl.int64) + (NOTHING + tl.arange(0, KP)[None, None, :].to(tl.int64))
    query_norm = tl.sqrt(tl.sum(query * query, 1))
    first = tl.zeros([], tl.int32) + begin
    following = _words(words, first + tl.arange(0, BLOCK), end, W, WP)
    while first < end:
        row = first + tl.arange(0, BLOCK)
        there = row < end
        tile = following  # the next ones are on their way meanwhile
        following = _words(words, row + BLOCK, end, W, WP)
        dot = tl.sum(query[:, None, :] * tile[None, :, :], 2)
        score = similarity(dot, query_norm[:, None], tl.sqrt(tl.sum(tile * tile, 1))[None, :], SIMILARITY)
        key = tl.where(there[None, :], sort_key(score, row[None, :]), NOTHING)
        least = tl.min(best, 2)
        best = tl.where((best == least[:, :, None]) & (key > least)[:, :, None], key[:, :, None], best)
        first += BLOCK
    return largest(tl.reshape(best, [heads, BLOCK * KP]), K, KP)


@triton.jit
def merged(partial, SPLITS: tl.constexpr, K: tl.constexpr, RP: tl.constexpr, KP: tl.constexpr):
    """The K best keys (RP, KP) of each head, of SPLITS searches (SPLITS, RP, KP) over parts of the rows."""
    head = tl.arange(0, RP)[:, None, None]
    split = tl.arange(0, SPLITS)[None, :, None]
    keys = tl.load(partial + (split * RP + head) * KP + tl.arange(0, KP)[None, None, :])
    return largest(tl.reshape(keys, [RP, SPLITS * KP]), K, KP)


@triton.jit(do_not_specialize=["t", "B", "M"])
def search(
    interface,
    words,
    counters,
    lengths,
    partial,
    B,
    M,
    t,
    F: tl.constexpr,
    R: tl.constexpr,
    W: tl.constexpr,
    K: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    BLOCK: tl.constexpr,
    SIMILARITY: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """One step's search, each of SPLITS programs over its part of the rows of one element."""
    b = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    if t < tl.load(lengths + b):
        head = tl.arange(0, RP)
        column = tl.arange(0, WP)
        is_word = (head < R)[:, None] & (column < W)[None, :]
        query = tl.load(interface + (t * B + b) * F + head[:, None] * W + column[None, :], mask=is_word, other=0.0)
        count = tl.minimum(tl.load(counters + b * 8 + 1) + K, M)
        part = tl.cdiv(tl.cdiv(count, SPLITS), BLOCK) * BLOCK
        begin = split * part
        end = tl.minimum(begin + part, count)
        key = most_similar(query, words + b * M * W, begin, end, W, K, KP, WP, BLOCK, SIMILARITY)
        place = ((b * SPLITS + split) * RP + head[:, None]) * KP + tl.arange(0, KP)[None, :]
        tl.store(partial + place, key)
