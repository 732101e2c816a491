"""Dense access to all N words: the baselines read (eq. soft_read) and write (eq. soft_write) with matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import EPSILON


def dense_similarity(kind: str, query: Tensor, words: Tensor) -> Tensor:
    """d(q, M(i)) (B, R, N) of eq. content_based_read for queries (B, R, W) and all words (B, N, W).

    The same measures as `addressing.similarity`, without its (B, R, N, W) product; nothing is selected by these
    scores, so the order in which a matrix product sums does not matter.
    """
    if kind == "cosine":
        return plain_cosine(query, words)
    dot = query @ words.mT
    if kind == "dot":
        return dot
    return 2 * dot - query.square().sum(dim=-1)[:, :, None] - words.square().sum(dim=-1)[:, None]


def plain_cosine(query: Tensor, words: Tensor) -> Tensor:
    """q·m / (|q| |m| + 1e-6), (B, R, N) for queries (B, R, W) and words (B, N, W); differentiable twice."""
    return query @ words.mT / (norm(query)[:, :, None] * norm(words)[:, None] + EPSILON)


def norm(vectors: Tensor) -> Tensor:
    """Lengths of vectors. The root of 0 has no derivative; an all-zero vector gets the derivative 0."""
    squares = vectors.square().sum(dim=-1)
    blank = squares == 0
    return torch.where(blank, 1.0, squares).sqrt() * ~blank


def dense_content_weights(kind: str, query: Tensor, strength: Tensor, words: Tensor) -> Tensor:
    """eq. content_based_read over all N words: softmax of beta * d(q, M(i)), (B, R, N), strength beta (B, R)."""
    return torch.softmax(strength[..., None] * dense_similarity(kind, query, words), dim=-1)


def dense_read(weights: Tensor, words: Tensor) -> Tensor:
    """eq. soft_read: r = sum_i w(i) M(i), (B, R, W) from weights (B, R, N)."""
    return weights @ words


def dense_write_weights(alpha: Tensor, gamma: Tensor, read_weights: Tensor, unused: Tensor) -> Tensor:
    """eq. lru_write_weights, densely: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]), (B, R, N)."""
    previous = (alpha * gamma)[..., None] * read_weights
    return previous.scatter_add(-1, unused[..., None], (alpha * (1 - gamma))[..., None])


def erase_rows_and_add(words: Tensor, unused: Tensor, weights: Tensor, write_words: Tensor) -> Tensor:
    """eq. sparse_write_suppl with dense weights: rows u (B, R) set to zero, then M += sum_h w^W_h a_h^T."""
    kept = words * words.new_ones(words.shape[:2]).scatter(1, unused, 0.0)[..., None]
    return torch.baddbmm(kept, weights.mT, write_words)


def erase_and_add(words: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """eq. soft_write: M(i) <- M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h, e and a (B, R, W), w (B, R, N).

    With several heads all erase before any adds, so their order makes no difference (Graves 2014, section 3.2).
    """
    one = words.new_ones(())
    for w, e in zip(weights.unbind(1), erase.unbind(1)):  # several times faster backward than `prod` over heads
        words = words * torch.baddbmm(one, w[:, :, None], e[:, None, :], alpha=-1)
    return torch.baddbmm(words, weights.mT, add)
