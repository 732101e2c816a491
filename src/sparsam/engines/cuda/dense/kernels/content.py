"""Content addressing over all words of a dense memory, which a program holds at once: scores, weights, gradients."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.search import EPSILON


@triton.jit
def norms(vectors):
    """Lengths (X) of vectors (X, WP)."""
    return tl.sqrt(tl.sum(vectors * vectors, 1))


@triton.jit
def similarities(query, words, SIMILARITY: tl.constexpr):
    """d(q, M(i)) of eq. content_based_read, (RP, NP), for queries (RP, WP) and words (NP, WP)."""
    dot = tl.sum(query[:, None, :] * words[None, :, :], 2)
    if SIMILARITY == "cosine":
        return dot / (norms(query)[:, None] * norms(words)[None, :] + EPSILON)
    elif SIMILARITY == "euclidean":
        return 2 * dot - tl.sum(query * query, 1)[:, None] - tl.sum(words * words, 1)[None, :]
    else:
        return dot


@triton.jit
def softmax(logit, real):
    """Over the last dimension of (RP, NP), 0 where not `real`."""
    logit = tl.where(real, logit, -1e30)
    power = tl.where(real, tl.exp(logit - tl.max(logit, 1)[:, None]), 0.0)
    return power / tl.maximum(tl.sum(power, 1), 1e-30)[:, None]


@triton.jit
def softmax_gradient(weight, gradient):
    """Of the logits (RP, NP), for the softmax and its gradient."""
    return weight * (gradient - tl.sum(weight * gradient, 1)[:, None])


@triton.jit
def read_words(weight, words):
    """eq. soft_read: r_h = sum_i w_h(i) M(i), (RP, WP)."""
    return tl.sum(weight[:, :, None] * words[None, :, :], 1)


@triton.jit
def summed_products(weight, vectors):
    """sum_h w_h(i) a_h, (NP, WP), for weights (RP, NP) and vectors (RP, WP)."""
    return tl.sum(weight[:, :, None] * vectors[:, None, :], 0)


@triton.jit
def dots(vectors, words):
    """a_h · M(i), (RP, NP)."""
    return tl.sum(vectors[:, None, :] * words[None, :, :], 2)


@triton.jit
def similarities_gradient(gradient, score, query, words, SIMILARITY: tl.constexpr):
    """Gradients of queries (RP, WP) and words (NP, WP) for that of their scores (RP, NP).

    cosine, with z = |q| |m| + 1e-6, a = g / z and c = a s:   dq = sum_i a m - q / |q| sum_i c |m|;
    dm = sum_h a q - m / |m| sum_h c |q|.   euclidean: dq = 2 sum_i g (m - q), dm = 2 sum_h g (q - m).
    """
    if SIMILARITY == "cosine":
        query_norm, word_norm = norms(query), norms(words)
        direct = gradient / (query_norm[:, None] * word_norm[None, :] + EPSILON)
        through = direct * score
        query_pull = tl.sum(through * word_norm[None, :], 1) / tl.where(query_norm == 0, 1.0, query_norm)
        word_pull = tl.sum(through * query_norm[:, None], 0) / tl.where(word_norm == 0, 1.0, word_norm)
        to_query = read_words(direct, words) - query_pull[:, None] * query
        to_words = summed_products(direct, query) - word_pull[:, None] * words
    elif SIMILARITY == "euclidean":
        to_query = 2 * (read_words(gradient, words) - tl.sum(gradient, 1)[:, None] * query)
        to_words = 2 * (summed_products(gradient, query) - tl.sum(gradient, 0)[:, None] * words)
    else:
        to_query = read_words(gradient, words)
        to_words = summed_products(gradient, query)
    return to_query, to_words
