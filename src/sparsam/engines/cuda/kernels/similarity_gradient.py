"""The gradient of the similarity of queries and the words they found."""

import triton
import triton.language as tl

from sparsam.engines.cuda.kernels.search import EPSILON


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
