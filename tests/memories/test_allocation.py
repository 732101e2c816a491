"""Usage and allocation of the DNC in small cases worked out by hand."""

from __future__ import annotations

import torch

from sparsam.memories.dnc import allocation_weights, dnc_usage, retention


def tensor(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_usage_grows_with_writes_and_shrinks_where_reads_are_freed():
    reads = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 0.0, 0.5]]], dtype=torch.float64)
    usage = dnc_usage(tensor(0.5, 0.5, 1.0), tensor(0.5, 0.0, 0.0), retention(tensor(1.0, 0.5), reads))
    # row 0: (0.5 + 0.5 - 0.25) (1 - 1) = 0; row 1: 0.5; row 2: 1 (1 - 0.5) (1 - 0.25) = 0.375
    torch.testing.assert_close(usage, tensor(0.0, 0.5, 0.375))


def test_allocation_by_ascending_usage():
    # order 2, 0, 1: a(2) = 0.8, a(0) = 0.5 * 0.2, a(1) = 0.1 * 0.5 * 0.2
    torch.testing.assert_close(allocation_weights(tensor(0.5, 0.9, 0.2)), tensor(0.1, 0.01, 0.8))


def test_a_free_row_takes_everything_and_the_lowest_comes_first():
    assert allocation_weights(tensor(1.0, 0.0, 0.0)).tolist() == [[0.0, 1.0, 0.0]]


def test_a_full_memory_allocates_nothing():
    assert allocation_weights(tensor(1.0, 1.0)).tolist() == [[0.0, 0.0]]


def test_elements_of_a_batch_are_sorted_by_themselves():
    usage = torch.tensor([[0.5, 0.25], [0.25, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(
        allocation_weights(usage), torch.tensor([[0.125, 0.75], [0.75, 0.125]], dtype=torch.float64)
    )


def test_gradients_flow_through_the_products():
    usage = torch.tensor([[0.5, 0.9, 0.2, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(allocation_weights, (usage,))
