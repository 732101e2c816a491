"""Exact search: the K most similar words for every head, in codes first where there are many."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.ordering import NOTHING, key_row, largest, largest_of_places, largest_of_two, sort_key

EPSILON = tl.constexpr(1e-6)  # as in `sparsam.memories.addressing`


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
def similarity_gradient(gradient, score, query, words, SIMILARITY: tl.constexpr):
    """Gradients of the queries (RP, WP) and the words (RP, KP, WP), given the gradient of their scores (RP, KP).

    cosine, with z = |q| |m| + 1e-6, a = g / z and c = a s:   dq = sum_k a m - q / |q| sum_k c |m|;
    dm = a q - m / |m| c |q|.   euclidean: dm = 2 g (q - m), dq = -sum_k dm.   dot: dq = sum_k g m, dm = g q.
    """
    if SIMILARITY == "cosine":
        query_norm = tl.sqrt(tl.sum(query * query, 1))
        word_norm = tl.sqrt(tl.sum(words * words, 2))
        direct = gradient / (query_norm[:, None] * word_norm + EPSILON)
        through = direct * score
        query_pull = tl.sum(through * word_norm, 1) / tl.where(query_norm == 0, 1.0, query_norm)
        word_pull = through * query_norm[:, None] / tl.where(word_norm == 0, 1.0, word_norm)
        to_query = tl.sum(direct[:, :, None] * words, 1) - query_pull[:, None] * query
        to_words = direct[:, :, None] * query[:, None, :] - word_pull[:, :, None] * words
    elif SIMILARITY == "euclidean":
        to_words = 2 * gradient[:, :, None] * (query[:, None, :] - words)
        to_query = -tl.sum(to_words, 1)
    else:
        to_words = gradient[:, :, None] * query[:, None, :]
        to_query = tl.sum(gradient[:, :, None] * words, 1)
    return to_query, to_words


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
    return largest_of_places(best, K)


@triton.jit
def merged(partial, SPLITS: tl.constexpr, K: tl.constexpr, RP: tl.constexpr, KP: tl.constexpr):
    """The K best keys (RP, KP) of each head, of SPLITS searches (SPLITS, RP, KP) over parts of the rows."""
    head = tl.arange(0, RP)[:, None]
    which = tl.arange(0, SPLITS * KP)[None, :]
    # Loaded as it is compared: after a reshape of (RP, SPLITS, KP) Triton 3.6 takes maxima over the wrong lanes.
    return largest(tl.load(partial + (which // KP * RP + head) * KP + which % KP), K, KP)


@triton.jit
def code_of(words):
    """Words (X, WP) in eight bits a component: at length 127, rounded, as a cosine compares directions; 0 stays 0."""
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


@triton.jit
def _score_groups(
    words,
    codes,
    turned,  # queries (WP, QP), or with codes their codes
    query_norm,  # (QP)
    maxima,
    begin,
    end,
    i,
    G,
    RP: tl.constexpr,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    SIMILARITY: tl.constexpr,
    CODED: tl.constexpr,
):
    """The best score of every group of rows in block i, or with codes about that, to `maxima` (RP, G)."""
    NG: tl.constexpr = BLOCK // GROUP
    WP: tl.constexpr = turned.shape[0]
    QP: tl.constexpr = turned.shape[1]
    row = begin + i * BLOCK + tl.arange(0, BLOCK)
    there = (row < end)[:, None]
    column = tl.arange(0, WP)
    if CODED:
        code = tl.load(codes + row[:, None] * WP + column[None, :], mask=there, other=0)
        score = tl.dot(code, turned, out_dtype=tl.int32).to(tl.float32)
    else:
        tile = _words(words, row, end, W, WP)
        dot = tl.dot(tile, turned, input_precision="tf32x3")
        score = similarity(dot, query_norm[None, :], tl.sqrt(tl.sum(tile * tile, 1))[:, None], SIMILARITY)
    top = tl.max(tl.reshape(tl.where(there, score, float("-inf")), [NG, GROUP, QP]), 1)
    head = tl.arange(0, QP)[None, :]
    group = i * NG + tl.arange(0, NG)[:, None]
    tl.store(maxima + head * G + group, top, mask=(head < RP) & (group >= 0))


@triton.jit
def _best_groups(maxima, groups, G, RP: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, CHUNK: tl.constexpr):
    """Keys (RP, CP) of the C groups of rows whose best scores, maxima (RP, G), are largest."""
    head = tl.arange(0, RP)[:, None]
    best = tl.full([RP, CP], NOTHING, tl.int64)
    first = 0
    while first < groups:
        group = first + tl.arange(0, CHUNK)[None, :]
        there = (group < groups) & (head >= 0)
        top = tl.load(maxima + head * G + group, mask=there, other=0.0)
        best = largest_of_two(best, tl.where(there, sort_key(top, group), NOTHING), C, CP)
        first += CHUNK
    return best


@triton.jit(do_not_specialize=["t", "B", "M", "G"])
def search(
    interface,
    words,
    codes,  # (B, M, WP) where CODED
    counters,
    lengths,
    maxima,  # (B, SPLITS, RP, G) scratch
    partial,
    B,
    M,
    G,
    t,
    F: tl.constexpr,
    R: tl.constexpr,
    W: tl.constexpr,
    K: tl.constexpr,
    RP: tl.constexpr,
    KP: tl.constexpr,
    WP: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    STAGES: tl.constexpr,  # 0 for a loop that Triton's interpreter can run
    SIMILARITY: tl.constexpr,
    SPLITS: tl.constexpr,
    CODED: tl.constexpr,
    C: tl.constexpr,  # groups of rows that are looked at row by row, and their power of two
    CP: tl.constexpr,
    CHUNK: tl.constexpr,  # groups that are compared at once
):
    """One step's search, each of SPLITS programs over its part of the rows of one element: keys (RP, KP) to `partial`.

    First the best score of every group of rows. The K best rows are in the K groups of the best such scores, ties to
    the lowest row included, and only these are looked at row by row (C = K); their scores are taken anew, without the
    products' rounding. With codes the first look is at them: what is found is scored exactly, and need not be the best.
    """
    NG: tl.constexpr = BLOCK // GROUP
    QP: tl.constexpr = RP if RP > 8 else 8  # a product of matrices takes no fewer columns
    b = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    if t < tl.load(lengths + b):
        head = tl.arange(0, RP)
        column = tl.arange(0, WP)
        is_column = (column < W)[None, :]
        request = interface + (t * B + b) * F
        query = tl.load(request + head[:, None] * W + column[None, :], mask=(head < R)[:, None] & is_column, other=0.0)
        query_norm = tl.sqrt(tl.sum(query * query, 1))[:, None]
        words += b * M * W
        maxima += (b * SPLITS + split) * RP * G
        count = tl.minimum(tl.load(counters + b * 8 + 1) + K, M)
        part = tl.cdiv(tl.cdiv(count, SPLITS), BLOCK) * BLOCK
        begin = split * part
        end = tl.minimum(begin + part, count)
        blocks = tl.cdiv(tl.maximum(end - begin, 0), BLOCK)
        any_head = tl.arange(0, QP)
        place = request + any_head[:, None] * W + column[None, :]
        every = tl.load(place, mask=(any_head < R)[:, None] & is_column, other=0.0)
        norms = tl.sqrt(tl.sum(every * every, 1))
        if CODED:
            codes += b * M * WP
            turned = tl.trans(code_of(every))
        else:
            turned = tl.trans(every)
        if STAGES > 0:
            for i in tl.range(0, blocks, num_stages=STAGES):
                _score_groups(
                    words, codes, turned, norms, maxima, begin, end, i, G, RP, W, BLOCK, GROUP, SIMILARITY, CODED
                )
        else:
            i = 0
            while i < blocks:
                _score_groups(
                    words, codes, turned, norms, maxima, begin, end, i, G, RP, W, BLOCK, GROUP, SIMILARITY, CODED
                )
                i += 1
        tl.debug_barrier()
        group = _best_groups(maxima, blocks * NG, G, RP, C, CP, CHUNK)
        row = begin + key_row(group)[:, :, None] * GROUP + tl.arange(0, GROUP)[None, None, :]
        row = tl.reshape(tl.where((group != NOTHING)[:, :, None], row, M), [RP, CP * GROUP])
        there = row < end
        mask = there[:, :, None] & (column < W)[None, None, :]
        tile = tl.load(words + row[:, :, None] * W + column[None, None, :], mask=mask, other=0.0)
        dot = tl.sum(query[:, None, :] * tile, 2)
        score = similarity(dot, query_norm, tl.sqrt(tl.sum(tile * tile, 2)), SIMILARITY)
        key = largest(tl.where(there, sort_key(score, row), NOTHING), K, KP)
        at = ((b * SPLITS + split) * RP + head[:, None]) * KP + tl.arange(0, KP)[None, :]
        tl.store(partial + at, key)
