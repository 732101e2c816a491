"""The interface vector is cut in the documented order."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from sparsam.engines.reference.interface import interface_size, split_interface


def test_order_and_ranges():
    assert interface_size(2, 3) == 18
    vector = torch.arange(-10.0, 10.0)[None]  # 18 rows and two that a model appends
    ask = split_interface(vector, 2, 3)
    assert ask.query.tolist() == [[[-10, -9, -8], [-7, -6, -5]]]
    assert ask.write_word.tolist() == [[[-4, -3, -2], [-1, 0, 1]]]
    torch.testing.assert_close(ask.strength, 1 + F.softplus(torch.tensor([[2.0, 3.0]])))
    torch.testing.assert_close(ask.write_gate, torch.sigmoid(torch.tensor([[4.0, 5.0]])))
    torch.testing.assert_close(ask.interpolation, torch.sigmoid(torch.tensor([[6.0, 7.0]])))
    assert ask.rest.tolist() == [[8, 9]]
