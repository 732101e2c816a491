"""The order of last accesses against a list that is rearranged by hand."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.memories.sam import least_recently_accessed, summed_weights, touch
from tests.beside import examples

SIZE = 7


@examples(80)
@given(steps=st.lists(st.sets(st.integers(0, SIZE - 1)), max_size=12))
def test_equals_a_list(steps):
    ring = list(range(SIZE))
    last_access, clock = torch.zeros(1, SIZE, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    for accessed in steps:
        mask = torch.zeros(1, SIZE, dtype=torch.bool)
        mask[0, list(accessed)] = True
        last_access, clock = touch(last_access, clock, mask)
        ring = [row for row in ring if row not in accessed] + sorted(accessed)
        assert least_recently_accessed(last_access, SIZE)[0].tolist() == ring
    assert clock.item() == len(steps)


def test_elements_of_a_batch_have_their_own_ring():
    last_access, clock = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    last_access, _ = touch(last_access, clock, torch.tensor([[True, False, False], [False, False, True]]))
    assert least_recently_accessed(last_access, 2).tolist() == [[1, 2], [0, 1]]


def test_weights_are_summed_per_row():
    rows = torch.tensor([[[0, 2], [2, -1]]])
    weights = torch.tensor([[[0.1, 0.2], [0.3, 9.0]]], requires_grad=True)
    summed = summed_weights(rows, weights, 3)
    torch.testing.assert_close(summed, torch.tensor([[0.1, 0.0, 0.5]]))
    assert not summed.requires_grad
