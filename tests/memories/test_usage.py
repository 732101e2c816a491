"""U^(1) against the sum that defines it, and the rows of least usage."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.memories.dam import discounted_usage, least_used


def test_equals_the_discounted_sum():
    writes, reads = torch.rand(5, 1, 2, 4), torch.rand(5, 1, 2, 4)
    usage = torch.zeros(1, 4)
    for w, r in zip(writes, reads):
        usage = discounted_usage(usage, 0.9, w, r)
    expected = sum(0.9 ** (4 - t) * (writes[t] + reads[t]).sum(dim=1) for t in range(5))
    torch.testing.assert_close(usage, expected)


@given(usage=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=8), count=st.integers(1, 3))
def test_least_used_rows_in_order_with_ties_to_the_lowest(usage, count):
    expected = sorted(range(len(usage)), key=lambda row: (usage[row], row))[:count]
    given_usage = torch.tensor([usage])
    assert least_used(given_usage, count).tolist() == [expected]
    assert given_usage.tolist() == [usage]  # left as it was
