"""SAM's write in small cases worked out by hand."""

from __future__ import annotations

import torch

from sparsam.memories.sam import sparse_write, write_weights


def test_weights_go_to_the_previous_read_and_to_the_unused_row():
    rows, weights = write_weights(
        torch.tensor([[0.5]]),
        torch.tensor([[0.75]]),
        torch.tensor([[[3, 1]]]),
        torch.tensor([[[0.8, 0.2]]]),
        torch.tensor([[2]]),
    )
    assert rows.tolist() == [[[3, 1, 2]]]
    torch.testing.assert_close(weights, torch.tensor([[[0.3, 0.075, 0.125]]]))


def test_before_the_first_read_only_the_unused_row_is_written():
    rows, weights = write_weights(
        torch.tensor([[0.5]]),
        torch.tensor([[0.75]]),
        torch.tensor([[[-1]]]),
        torch.tensor([[[9.0]]]),
        torch.tensor([[2]]),
    )
    assert rows.tolist() == [[[-1, 2]]] and weights.tolist() == [[[0.0, 0.125]]]


def test_unused_rows_are_erased_then_all_heads_add():
    words = torch.ones(1, 3, 2)
    rows, weights = torch.tensor([[[2, 0], [0, 1]]]), torch.tensor([[[0.5, 1.0], [0.25, 0.0]]])
    a = torch.tensor([[[1.0, 2.0], [4.0, 0.0]]])
    after = sparse_write(words, torch.tensor([[0, 1]]), rows, weights, a)
    assert after.tolist() == [[[2.0, 2.0], [0.0, 0.0], [1.5, 2.0]]]
    assert words.tolist() == [[[1.0, 1.0]] * 3]
