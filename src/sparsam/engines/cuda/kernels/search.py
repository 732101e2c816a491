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
def most_similar(
    query,  # (RP, WP)
    words,  # of this element, (N, W)
    count,  # rows to look at
    W: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    BLOCK: tl.constexpr,
    SIMILARITY: tl.constexpr,
):
    """Keys (RP, KP) of the K most similar of the first `count` rows, best first.

    Every place of a block keeps the K best of the rows that came by there; the K best of all are chosen at the end, so
    that threads meet once and not for every block.
    """
    heads: tl.constexpr = query.shape[0]
    column = tl.arange(0, WP)
    # Below every key, and each different: a new key takes the place of the smallest alone.
    best = tl.zeros([heads, BLOCK, KP], tl.int64) + (NOTHING + tl.arange(0, KP)[None, None, :].to(tl.int64))
    query_norm = tl.sqrt(tl.sum(query * query, 1))
    begin = 0
    while begin < count:
        row = begin + tl.arange(0, BLOCK)
        there = row < count
        tile = tl.load(
            words + row[:, None] * W + column[None, :], mask=there[:, None] & (column < W)[None, :], other=0.0
        )
        dot = tl.sum(query[:, None, :] * tile[None, :, :], 2)
        score = similarity(dot, query_norm[:, None], tl.sqrt(tl.sum(tile * tile, 1))[None, :], SIMILARITY)
        key = tl.where(there[None, :], sort_key(score, row[None, :]), NOTHING)
        least = tl.min(best, 2)
        best = tl.where((best == least[:, :, None]) & (key > least)[:, :, None], key[:, :, None], best)
        begin += BLOCK
    return largest(tl.reshape(best, [heads, BLOCK * KP]), K, KP)
