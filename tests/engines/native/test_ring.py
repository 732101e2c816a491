"""The core's ring against a plain list and against the reference's sort by last access."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.engines.native.core import native
from sparsam.memories.sam import least_recently_accessed, touch

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")

steps = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(st.just(rows), st.lists(st.sets(st.integers(0, rows - 1), max_size=4), max_size=12))
)


@given(steps)
def test_moves_and_undo_against_a_list(case):
    rows, accesses = case
    ring, order, history = native.Ring(rows), list(range(rows)), []
    for accessed in accesses:
        for row in sorted(accessed):
            history.append((row, ring.move_to_back(row), list(order)))
            order = [other for other in order if other != row] + [row]
        assert ring.first(rows) == order
    for row, before, earlier in reversed(history):
        ring.undo(row, before)
        assert ring.first(rows) == earlier


@given(steps)
def test_equals_the_order_by_last_access(case):
    rows, accesses = case
    ring = native.Ring(rows)
    last_access, clock = torch.zeros(1, rows, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    for accessed in accesses:
        for row in sorted(accessed):
            ring.move_to_back(row)
        hit = torch.zeros(1, rows, dtype=torch.bool)
        hit[0, list(accessed)] = True
        last_access, clock = touch(last_access, clock, hit)
        assert ring.first(rows) == least_recently_accessed(last_access, rows)[0].tolist()
