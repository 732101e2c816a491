"""Bypass dropout: on h alone, in training alone, the same in every engine."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.controllers.bypass import BypassDropout

SIZES = dict(input_size=4, output_size=3, hidden_size=10, memory_size=30, word_size=6, num_heads=2, k=3)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_native_equals_reference_under_the_same_mask(name):
    torch.manual_seed(0)
    reference = sparsam.build(name, engine="reference", bypass_dropout=0.4, **SIZES)
    native = sparsam.build(name, engine="native", bypass_dropout=0.4, **SIZES)
    native.load_state_dict(reference.state_dict())
    x, gradient = torch.randn(7, 3, 4), torch.randn(7, 3, 3)
    results = []
    for model in (native, reference):
        torch.manual_seed(5)
        y, _ = model(x)
        (y * gradient).sum().backward()
        results.append([y, *(p.grad for p in model.parameters())])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_mean_is_kept_and_nothing_is_dropped_in_evaluation():
    part = BypassDropout(40, 0.25)
    joint = torch.ones(100, 20, 47)
    seen = part(joint)
    assert set(seen[..., :40].unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs(float(seen[..., :40].mean()) - 1) < 0.05
    assert part.eval()(joint) is joint


def test_what_was_read_is_never_dropped():
    assert (BypassDropout(4, 0.9)(torch.ones(50, 7))[:, 4:] == 1).all()
