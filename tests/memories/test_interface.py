"""The interface vector is cut in the documented order."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from sparsam.memories.addressing import MaskedAddressing
from sparsam.memories.description import SparseSizes
from sparsam.memories.interface import sparse_interface
from sparsam.memories.sdnc import SDNCMemory


def test_order_and_ranges():
    assert sparse_interface(2, 3).size == 18
    vector = torch.arange(-10.0, 18.0)[None]  # 18 rows, then read modes, free gates and erase gates
    interface = sparse_interface(2, 3, links=True, free_gates=True, erase=True)
    request = interface.split(vector)
    assert request["query"].tolist() == [[[-10, -9, -8], [-7, -6, -5]]]
    assert request["write_word"].tolist() == [[[-4, -3, -2], [-1, 0, 1]]]
    torch.testing.assert_close(request["strength"], 1 + F.softplus(torch.tensor([[2.0, 3.0]])))
    torch.testing.assert_close(request["write_gate"], torch.sigmoid(torch.tensor([[4.0, 5.0]])))
    torch.testing.assert_close(request["interpolation"], torch.sigmoid(torch.tensor([[6.0, 7.0]])))
    torch.testing.assert_close(request["read_modes"], torch.softmax(torch.tensor([[[8.0, 9, 10], [11, 12, 13]]]), -1))
    torch.testing.assert_close(request["free_gates"], torch.sigmoid(torch.tensor([[14.0, 15.0]])))
    torch.testing.assert_close(request["erase"], torch.sigmoid(torch.tensor([[16.0, 17.0]])))
    assert list(interface.offsets().values()) == [0, 6, 12, 14, 16, 18, 24, 26]


def test_masks_come_last():
    interface = SDNCMemory(SparseSizes(9, 3, 2, 1, k_links=2), MaskedAddressing()).interface
    assert [field.name for field in interface.fields][-2:] == ["read_modes", "masks"] and interface.size == 30
