"""Similarities, the K most similar rows, and the sparse read."""

from __future__ import annotations

import math

import pytest
import torch

from sparsam.memories.addressing import (
    SIMILARITIES,
    content_weights,
    gather_words,
    most_similar,
    similarity,
    weighted_sum,
)


def read_rows(query, strength, words, rows):
    """Weights and the words read, of the rows that were found."""
    chosen = gather_words(words, rows)
    weights = content_weights("cosine", query, strength, chosen)
    return weights, weighted_sum(weights, chosen)


def test_similarities_by_hand():
    query, words = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[4.0, 3.0], [0.0, 0.0]]])
    torch.testing.assert_close(similarity("cosine", query, words), torch.tensor([[[24 / (25 + 1e-6), 0.0]]]))
    assert similarity("euclidean", query, words).tolist() == [[[-2.0, -25.0]]]
    assert similarity("dot", query, words).tolist() == [[[24.0, 0.0]]]


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_most_similar_rows_best_first(kind):
    query, words = torch.randn(2, 3, 4), torch.randn(2, 8, 4)
    rows = most_similar(kind, query, words, 3)
    scores = similarity(kind, query, words)
    for b in range(2):
        for h in range(3):
            expected = sorted(range(8), key=lambda row, b=b, h=h: (-scores[b, h, row].item(), row))[:3]
            assert rows[b, h].tolist() == expected


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_equal_words_tie_to_the_lowest_row(kind):
    words = torch.randn(1, 1, 5).expand(1, 40, 5)
    assert most_similar(kind, torch.randn(1, 2, 5), words, 4).tolist() == [[[0, 1, 2, 3]] * 2]


def test_weights_are_a_softmax_of_strength_times_similarity():
    query, words = torch.tensor([[[1.0]]]), torch.tensor([[[1.0], [3.0]]])
    weights = content_weights("dot", query, torch.tensor([[0.5]]), words)
    assert weights.flatten().tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])


def test_sparse_read_over_all_rows_is_the_dense_read():
    query, words, strength = torch.randn(2, 3, 4), torch.randn(2, 5, 4), 1 + torch.rand(2, 3)
    rows = torch.arange(5).expand(2, 3, 5)
    weights, read = read_rows(query, strength, words, rows)
    expected = content_weights("cosine", query, strength, words)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(read, expected @ words)


def test_gradients_at_a_blank_word_are_finite():
    words = torch.zeros(1, 3, 2, requires_grad=True)
    query = torch.randn(1, 1, 2, requires_grad=True)
    _, read = read_rows(query, torch.ones(1, 1), words, torch.tensor([[[0, 1]]]))
    read.sum().backward()
    assert torch.isfinite(words.grad).all() and torch.isfinite(query.grad).all()
    assert (words.grad[0, 2] == 0).all()  # a row that is not read gets no gradient
