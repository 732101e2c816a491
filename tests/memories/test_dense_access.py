"""Dense reads and writes against the plain forms of the same equations."""

from __future__ import annotations

import pytest
import torch

from sparsam.memories.addressing import (
    SIMILARITIES,
    content_weights,
    dense_content_weights,
    dense_similarity,
    similarity,
)
from sparsam.memories.dam import dense_write_weights, erase_rows_and_add
from sparsam.memories.memory import dense_read, erase_and_add
from sparsam.memories.sam import sparse_write, write_weights


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_similarity_equals_the_plain_one(kind):
    query, words = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 6, 4, dtype=torch.float64)
    words[0, 2] = 0.0
    strength = 1 + torch.rand(2, 3, dtype=torch.float64)
    torch.testing.assert_close(dense_similarity(kind, query, words), similarity(kind, query, words))
    torch.testing.assert_close(
        dense_content_weights(kind, query, strength, words), content_weights(kind, query, strength, words)
    )


def test_read_is_the_weighted_sum():
    weights, words = torch.tensor([[[0.25, 0.75]]]), torch.tensor([[[4.0, 0.0], [0.0, 4.0]]])
    assert dense_read(weights, words).tolist() == [[[1.0, 3.0]]]


def test_dense_write_equals_the_sparse_one():
    batch, heads, size, width = 2, 2, 5, 3
    alpha, gamma = torch.rand(batch, heads), torch.rand(batch, heads)
    unused, rows = torch.tensor([[0, 3], [4, 1]]), torch.arange(size).expand(batch, heads, size)
    reads, a = torch.rand(batch, heads, size).softmax(-1), torch.randn(batch, heads, width)
    words = torch.randn(batch, size, width)
    w = dense_write_weights(alpha, gamma, reads, unused)
    sparse = write_weights(alpha, gamma, rows, reads, unused)
    torch.testing.assert_close(erase_rows_and_add(words, unused, w, a), sparse_write(words, unused, *sparse, a))


@pytest.mark.parametrize("heads", [1, 3])
def test_erase_and_add_over_heads(heads):
    words, w = torch.randn(1, 4, 2), torch.rand(1, heads, 4)
    erase, add = torch.rand(1, heads, 2), torch.randn(1, heads, 2)
    expected = words[0].clone()
    for h in range(heads):
        expected *= 1 - torch.outer(w[0, h], erase[0, h])
    for h in range(heads):
        expected += torch.outer(w[0, h], add[0, h])
    torch.testing.assert_close(erase_and_add(words, w, erase, add)[0], expected)
