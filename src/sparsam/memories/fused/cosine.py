"""Cosine similarity to all N words as one operation: the numbers of `addressing.similarity`, fewer (B, N, W) tensors.

Autograd gives each use of the memory a gradient tensor of the memory's size and adds them up; written out, the
backward pass needs one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import EPSILON
from sparsam.engines.reference.dense import dense_similarity, plain_cosine


def cosine(query: Tensor, words: Tensor) -> Tensor:
    """`plain_cosine`, with its own backward pass."""
    return Cosine.apply(query, words)  # type: ignore[no-any-return]


class Cosine(torch.autograd.Function):
    """s(h,i) = q_h·m_i / z(h,i) with z = |q_h| |m_i| + 1e-6. With g the gradient of s, and a = g / z, c = a s:

    dq_h = sum_i a(h,i) m_i - q_h / |q_h| sum_i c(h,i) |m_i|; dm_i = sum_h a(h,i) q_h - m_i / |m_i| sum_h c(h,i) |q_h|.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, words: Tensor) -> Tensor:
        query_norm = torch.linalg.vector_norm(query, dim=-1)
        word_norm = torch.linalg.vector_norm(words, dim=-1)
        scale = torch.bmm(query_norm[:, :, None], word_norm[:, None, :]).add_(EPSILON)
        scores = torch.bmm(query, words.mT).div_(scale)
        ctx.save_for_backward(query, words, query_norm, word_norm, scale, scores)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        query, words, query_norm, word_norm, scale, scores = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            wanted = [value for value in (query, words) if value.requires_grad]
            found = iter(torch.autograd.grad(plain_cosine(query, words), wanted, grad, create_graph=True))
            return tuple(next(found) if value.requires_grad else None for value in (query, words))
        direct = grad / scale
        through_norms = direct * scores
        to_query = to_words = None
        if ctx.needs_input_grad[0]:
            pull = torch.bmm(through_norms, word_norm[:, :, None]) / positive(query_norm)[..., None]
            to_query = torch.bmm(direct, words).addcmul_(query, pull, value=-1)
        if ctx.needs_input_grad[1]:
            pull = torch.bmm(query_norm[:, None, :], through_norms)[:, 0] / positive(word_norm)
            to_words = (words * pull[..., None]).baddbmm_(direct.mT, query, beta=-1)
        return to_query, to_words


def dense_content_weights(kind: str, query: Tensor, strength: Tensor, words: Tensor) -> Tensor:
    """`engines.reference.dense.dense_content_weights` with the cosine above."""
    scores = cosine(query, words) if kind == "cosine" else dense_similarity(kind, query, words)
    return torch.softmax(strength[..., None] * scores, dim=-1)


def positive(norm: Tensor) -> Tensor:
    """The norm, or 1 for an all-zero vector, whose norm has the gradient 0."""
    return torch.where(norm == 0, 1.0, norm)
