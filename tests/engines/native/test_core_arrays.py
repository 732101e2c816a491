"""Tensors on their way to the core and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import sparsam
from sparsam import _native
from sparsam.engines.native import core


def model_of(**settings: Any) -> Any:
    torch.manual_seed(0)
    return sparsam.SAM(3, 2, hidden_size=5, memory_size=20, word_size=4, num_heads=2, k=2, engine="native", **settings)


def run(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    y, state = model(x)
    y.pow(2).sum().backward()
    found = [y.detach(), state.read.detach(), state.read_rows, *(p.grad.clone() for p in model.parameters())]
    model.zero_grad()
    return found


def test_numpy_in_between_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch before 2.10 has no C API for its tensors."""
    model, x = model_of(), torch.randn(4, 3, 3)
    expected = run(model, x)
    monkeypatch.setattr(core, "takes_tensors", False)
    assert all(torch.equal(a, b) for a, b in zip(run(model, x), expected, strict=True))


def test_views_are_taken_as_they_are_meant() -> None:
    model, x = model_of(), torch.randn(4, 3, 3)
    expected = run(model, x)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    inside = torch.zeros(8, 3, 5)
    inside[::2, :, 1:4] = x
    negative = torch.complex(torch.zeros_like(x), -x).conj().imag  # lazily negated
    assert negative.is_neg() and not turned.is_contiguous()
    for view in (turned, inside[::2, :, 1:4], negative):
        assert all(torch.equal(a, b) for a, b in zip(run(model, view), expected, strict=True))


def test_results_outlive_what_they_came_from() -> None:
    model, x = model_of(), torch.randn(4, 3, 3)
    y, state = model(x)
    read, kept = state.read.detach(), state.read.detach().clone()
    del y, state
    for _ in range(3):
        model(torch.randn(4, 3, 3))
    assert torch.equal(read, kept)


@pytest.mark.skipif(not core.takes_tensors, reason="this PyTorch has no C API for its tensors (2.10 and later have)")
def test_wrong_tensors_are_refused_by_name() -> None:
    words = torch.randn(5, 3)
    held = _native.Initial32(words)
    assert torch.equal(torch.from_numpy(held.words()), words)
    with pytest.raises(ValueError, match=r"words: expected a contiguous .*float32 .*, got float64 \(5, 3\)"):
        _native.Initial32(words.double())
    with pytest.raises(ValueError, match=r"rows: expected .* \(any\), got int64 \(1, 2\)"):
        held.words(torch.tensor([[0, 1]]))
    with pytest.raises(ValueError, match="that is not"):
        _native.Initial32(torch.randn(5, 6)[:, ::2])
    for wrong in (torch.randn(5, 3, device="meta"), torch.randn(1, 1, 1, 5, 3), torch.randn(5, 3).to_sparse(), None):
        with pytest.raises((ValueError, TypeError)):
            _native.Initial32(wrong)


def test_a_foreign_capsule_is_refused() -> None:
    assert not _native.use_tensors(torch.Tensor, np.float32)
    assert run(model_of(), torch.randn(2, 1, 3))[0].shape == (2, 1, 2)
