"""Usage with free gates in small cases worked out by hand."""

from __future__ import annotations

import pytest
import torch

from sparsam.memories.sdnc import filled, freed, room


def test_what_is_read_is_freed_by_the_product_over_heads():
    usage = torch.tensor([[0.5, 0.8, 0.0, 1.0]])
    rows, weights = torch.tensor([[[1, 0], [1, 3]]]), torch.tensor([[[0.5, 0.25], [0.2, 1.0]]])
    after = freed(usage, torch.tensor([[0.4, 1.0]]), rows, weights)
    torch.testing.assert_close(after, torch.tensor([[0.5 * 0.9, 0.8 * 0.8 * 0.8, 0.0, 0.0]]))


def test_rows_of_minus_one_and_weights_above_one():
    usage = torch.full((1, 3), 0.5)
    rows, weights = torch.tensor([[[-1, 2]]]), torch.tensor([[[9.0, 3.0]]])
    after = freed(usage, torch.tensor([[0.5]]), rows, weights)
    torch.testing.assert_close(after, torch.tensor([[0.5, 0.5, 0.25]]))


def test_room_is_what_usage_leaves():
    usage = torch.tensor([[0.5, 0.8, 0.0]])
    torch.testing.assert_close(room(usage, torch.tensor([[2, 1]])), torch.tensor([[1.0, 0.2]]))


def test_writing_fills_up_to_one():
    usage = torch.tensor([[0.5, 0.8, 0.0, 1.0]])
    after = filled(usage, torch.tensor([[0.5, 1.5, 0.25, 1.5]]))
    torch.testing.assert_close(after, torch.tensor([[0.75, 1.0, 0.25, 1.0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_traces_count_as_nothing(dtype):
    tiny = torch.finfo(dtype).tiny
    usage = torch.zeros(1, 3, dtype=dtype)
    after = filled(usage, torch.tensor([[tiny / 4, 16 * tiny, 17 * tiny]], dtype=dtype))
    assert (after > 0).tolist() == [[False, False, True]]


def test_gradient_reaches_gates_and_reads_and_the_end_is_a_constant():
    usage = torch.tensor([[0.5, 0.75, 0.3]], dtype=torch.float64)
    gates = torch.tensor([[0.3, 0.6]], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[[0.5, 0.2], [0.7, 0.1]]], dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([[[1, 0], [1, 2]]])
    assert torch.autograd.gradcheck(lambda f, w: freed(usage, f, rows, w), (gates, weights))
    assert not filled(freed(usage, gates, rows, weights), weights.new_ones(1, 3)).requires_grad
