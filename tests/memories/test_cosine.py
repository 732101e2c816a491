"""The cosine with its own backward pass against the plain one."""

from __future__ import annotations

import torch

from sparsam.memories.addressing import Cosine, dense_similarity

cosine = Cosine.apply


def inputs(*, zero_word: bool = False):
    query, words = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    if zero_word:
        words[0, 1] = 0.0
    return query.requires_grad_(), words.requires_grad_()


def test_equals_the_plain_one_on_blank_words_too():
    query, words = inputs(zero_word=True)
    ours, plain = cosine(query, words), dense_similarity("cosine", query, words)
    torch.testing.assert_close(ours, plain)
    weights = torch.randn_like(plain)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), (query, words)),
        torch.autograd.grad((plain * weights).sum(), (query, words)),
    ):
        assert torch.isfinite(mine).all()
        torch.testing.assert_close(mine, theirs)


def test_a_query_of_zeros_has_a_finite_gradient():
    query, words = torch.zeros(1, 1, 2, requires_grad=True), torch.ones(1, 3, 2)
    cosine(query, words).sum().backward()
    torch.testing.assert_close(query.grad, torch.full((1, 1, 2), 3e6))


def test_gradients_once_and_twice():
    assert torch.autograd.gradcheck(cosine, inputs())
    assert torch.autograd.gradgradcheck(cosine, inputs())
    query, words = inputs()
    assert torch.autograd.gradcheck(cosine, (query.detach(), words))
    assert torch.autograd.gradgradcheck(cosine, (query, words.detach()))
