"""Interpolation, shift and sharpening of the NTM in small cases worked out by hand."""

from __future__ import annotations

import torch

from sparsam.memories.ntm import interpolate, sharpen, shift


def row(*values):
    return torch.tensor(values, dtype=torch.float64).view(1, 1, -1)


def test_interpolation():
    gate = torch.tensor([[0.25]], dtype=torch.float64)
    mixed = interpolate(gate, row(1.0, 0.0), row(0.0, 1.0))
    torch.testing.assert_close(mixed, row(0.25, 0.75))


def test_shift_moves_forward_and_backward_in_a_circle():
    weights = row(0.6, 0.4, 0.0, 0.0)
    torch.testing.assert_close(shift(weights, row(0.0, 0.0, 1.0)), row(0.0, 0.6, 0.4, 0.0))
    torch.testing.assert_close(shift(weights, row(1.0, 0.0, 0.0)), row(0.4, 0.0, 0.0, 0.6))
    torch.testing.assert_close(shift(weights, row(0.0, 1.0, 0.0)), weights)


def test_shift_mixes_its_taps():
    # w~(0) = 0.2 w(1) + 0.5 w(0) + 0.3 w(3), and so on
    mixed = shift(row(0.6, 0.4, 0.0, 0.0), row(0.2, 0.5, 0.3))
    torch.testing.assert_close(mixed, row(0.38, 0.38, 0.12, 0.12))


def test_heads_shift_by_themselves():
    weights = torch.eye(3, dtype=torch.float64)[:2][None]
    taps = torch.tensor([[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]], dtype=torch.float64)
    assert shift(weights, taps).tolist() == [[[0, 1, 0], [0, 1, 0]]]


def test_sharpening():
    # 0.6^2 = 0.36, 0.4^2 = 0.16, over 0.52
    sharp = sharpen(row(0.6, 0.4, 0.0), torch.tensor([[2.0]], dtype=torch.float64))
    torch.testing.assert_close(sharp, row(0.36 / 0.52, 0.16 / 0.52, 0.0))


def test_sharpening_by_one_normalises():
    torch.testing.assert_close(sharpen(row(1.0, 3.0), torch.ones(1, 1, dtype=torch.float64)), row(0.25, 0.75))


def test_sharpening_survives_many_small_weights():
    weights = torch.full((1, 1, 4096), 1 / 4096, dtype=torch.float32)
    sharp = sharpen(weights, torch.tensor([[50.0]]))  # (1/4096)^50 is far below the smallest float
    torch.testing.assert_close(sharp, weights)


def test_sharpening_has_the_right_gradient_and_none_at_zero_is_nan():
    weights = torch.tensor([[[0.5, 0.3, 0.2]]], dtype=torch.float64, requires_grad=True)
    exponent = torch.tensor([[1.7]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sharpen, (weights, exponent))
    edge = row(1.0, 0.0).requires_grad_()
    sharpen(edge, exponent)[..., 0].sum().backward()
    assert torch.isfinite(edge.grad).all()
