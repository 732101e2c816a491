"""Records of accesses: what is kept, and that a dense record is small."""

from __future__ import annotations

import torch

from sparsam.trace import READ, WRITE, Access, DenseAccess, Trace


def test_entries_leave_out_missing_rows_and_zero_weights():
    access = Access(READ, 3, torch.tensor([[[4, -1]], [[2, 0]]]), torch.tensor([[[0.5, 0.5]], [[0.0, 1.0]]]))
    time, batch, head, row, weight, kind = (column.tolist() for column in access.entries())
    assert (time, batch, head, row, weight, kind) == ([3, 3], [0, 1], [0, 0], [4, 0], [0.5, 1.0], [0, 0])


def test_a_record_of_many_steps_counts_time():
    access = Access(WRITE, 0, torch.zeros(3, 1, 1, 1, dtype=torch.int64), torch.ones(3, 1, 1, 1))
    assert access.entries()[0].tolist() == [0, 1, 2]


def test_inactive_elements_leave_no_entry():
    access = Access(READ, 0, torch.zeros(2, 1, 1, dtype=torch.int64), torch.ones(2, 1, 1))
    assert Trace.of([access.at(5, torch.tensor([False, True]))]).batch.tolist() == [1]


def test_dense_records_keep_the_largest_weights_alone():
    weights = torch.rand(2, 3, 1000)
    record = DenseAccess(READ, weights).at(0, None)
    assert record.rows.shape == (2, 3, 8)
    torch.testing.assert_close(record.weights, weights.sort(dim=-1, descending=True).values[..., :8])
    assert DenseAccess(READ, weights[..., :5]).at(0, None).rows.shape == (2, 3, 5)
