"""Content addressing: how similar a query is to each word, and the sparse read of the K most similar ones."""

from __future__ import annotations

import torch
from torch import Tensor

SIMILARITIES = ("cosine", "euclidean", "dot")
EPSILON = 1e-6  # keeps the cosine of an all-zero word at 0


def similarity(kind: str, query: Tensor, words: Tensor) -> Tensor:
    """d(q, M(i)) of eq. content_based_read, for queries (B, R, W) and words (B, N, W) or (B, R, K, W).

    cosine: q·m / (|q| |m| + 1e-6);   euclidean: -|q - m|^2;   dot: q·m.   The result is (B, R, N) or (B, R, K).
    """
    if words.dim() == 3:
        words = words[:, None]
    if kind == "euclidean":
        return -(query[:, :, None] - words).square().sum(dim=-1)
    dot = (query[:, :, None] * words).sum(dim=-1)
    if kind == "dot":
        return dot
    norms: Tensor = torch.linalg.vector_norm(query, dim=-1)[:, :, None] * torch.linalg.vector_norm(words, dim=-1)
    return dot / (norms + EPSILON)


def most_similar(kind: str, query: Tensor, words: Tensor, k: int) -> Tensor:
    """Rows (B, R, K) of the K most similar words per head, best first; ties go to the lowest row."""
    scores = similarity(kind, query.detach(), words.detach())
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]


def gather_words(words: Tensor, rows: Tensor) -> Tensor:
    """M(s_i): the words (B, R, K, W) at rows (B, R, K)."""
    batch, heads, k = rows.shape
    flat = rows.reshape(batch, heads * k, 1).expand(-1, -1, words.shape[-1])
    return words.gather(1, flat).view(batch, heads, k, -1)


def content_weights(kind: str, query: Tensor, strength: Tensor, words: Tensor) -> Tensor:
    """eq. content_based_read: softmax over the last dimension of beta * d(q, M(i)), strength beta (B, R)."""
    return torch.softmax(strength[..., None] * similarity(kind, query, words), dim=-1)


def weighted_sum(weights: Tensor, chosen: Tensor) -> Tensor:
    """eq. sparse_read_forward: r = sum_i w(s_i) M(s_i), (B, R, W) for weights (B, R, K) of words (B, R, K, W)."""
    return (weights[..., None] * chosen).sum(dim=-2)
