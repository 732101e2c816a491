"""What is freed is erased."""

from __future__ import annotations

import torch

from sparsam.engines.reference.allocation import retention
from sparsam.engines.reference.deallocation import deallocated


def test_a_word_loses_what_its_readers_free():
    words = torch.tensor([[[2.0, 4.0], [6.0, 8.0], [1.0, 1.0]]])
    reads = torch.tensor([[[1.0, 0.5, 0.0], [0.0, 0.5, 0.0]]])
    kept = retention(torch.tensor([[1.0, 0.5]]), reads)
    # psi = (1 - 1) 1, (1 - 0.5) (1 - 0.25), 1
    assert kept.tolist() == [[0.0, 0.375, 1.0]]
    assert deallocated(words, kept).tolist() == [[[0.0, 0.0], [2.25, 3.0], [1.0, 1.0]]]


def test_gradcheck():
    words = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    kept = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(deallocated, (words, kept))
