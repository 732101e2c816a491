"""Bypass dropout of a whole sequence: the reference's, step by step, when it draws the same mask."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

import sparsam
from sparsam.engines.bypass import bypass_mask, masked_joint

SIZES = dict(input_size=4, output_size=3, hidden_size=10, memory_size=30, word_size=6, num_heads=2, k=3)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_native_equals_reference_under_the_same_mask(name):
    torch.manual_seed(0)
    reference = sparsam.build(name, engine="reference", bypass_dropout=0.4, **SIZES)
    native = sparsam.build(name, engine="native", bypass_dropout=0.4, **SIZES)
    native.load_state_dict(reference.state_dict())
    x, gradient = torch.randn(7, 3, 4), torch.randn(7, 3, 3)
    mask = bypass_mask(native, x)
    steps = iter(mask)
    with mock.patch("sparsam.engines.reference.bypass.F.dropout", lambda h, p, training: h * next(steps)):
        expected, _ = reference(x)
    with mock.patch("sparsam.engines.native.sequence.bypass_mask", lambda model, x: mask):
        found, _ = native(x)
    torch.testing.assert_close(found, expected)
    (expected * gradient).sum().backward()
    (found * gradient).sum().backward()
    for a, b in zip(native.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)


def test_the_mask_keeps_the_mean_and_goes_in_evaluation():
    model = sparsam.build("sam", bypass_dropout=0.25, **SIZES)
    mask = bypass_mask(model, torch.zeros(100, 20, 4))
    torch.testing.assert_close(mask.unique(), torch.tensor([0.0, 4 / 3]))
    assert abs(float(mask.mean()) - 1) < 0.05
    assert bypass_mask(model.eval(), torch.zeros(5, 2, 4)) is None
    assert bypass_mask(sparsam.build("sam", **SIZES), torch.zeros(5, 2, 4)) is None


def test_what_was_read_is_never_dropped():
    joint, mask = torch.ones(2, 3, 7), torch.zeros(2, 3, 4)
    seen = masked_joint(joint, mask)
    assert torch.equal(seen[..., :4], torch.zeros(2, 3, 4)) and torch.equal(seen[..., 4:], torch.ones(2, 3, 3))
    assert masked_joint(joint, None) is joint
