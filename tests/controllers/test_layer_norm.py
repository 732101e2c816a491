"""The layer-normalised controller by its equations."""

from __future__ import annotations

import torch
from torch import nn

from sparsam.controllers.layer_norm import ControllerNorm, normalised_lstm_step


def controller():
    return nn.LSTM(3, 2).double(), ControllerNorm(2).double()


def standardised(vector):
    return (vector - vector.mean()) / (vector.var(unbiased=False) + 1e-5).sqrt()


def test_equals_its_equations():
    lstm, norm = controller()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.uniform_(-1, 1)
    x, h, c = (torch.randn(1, size, dtype=torch.float64) for size in (3, 2, 2))
    hidden, cell = normalised_lstm_step(lstm, norm, x, h, c)
    gates = standardised(lstm.weight_ih_l0 @ x[0]) * norm.input.weight + lstm.bias_ih_l0
    gates = gates + standardised(lstm.weight_hh_l0 @ h[0]) * norm.hidden.weight + lstm.bias_hh_l0
    i, f, g, o = gates[:2].sigmoid(), gates[2:4].sigmoid(), gates[4:6].tanh(), gates[6:].sigmoid()
    expected = f * c[0] + i * g
    torch.testing.assert_close(cell[0], expected)
    normalised = standardised(expected) * norm.cell.weight + norm.cell.bias
    torch.testing.assert_close(hidden[0], o * normalised.tanh())


def test_the_scale_of_the_input_does_not_matter():
    lstm, norm = controller()
    x, zeros = torch.randn(1, 3, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    small, large = (normalised_lstm_step(lstm, norm, scale * x, zeros, zeros)[1] for scale in (1e2, 1e4))
    torch.testing.assert_close(small, large, rtol=1e-5, atol=1e-7)


def test_gradcheck():
    lstm, norm = controller()
    values = [torch.randn(2, size, dtype=torch.float64, requires_grad=True) for size in (3, 2, 2)]
    assert torch.autograd.gradcheck(lambda x, h, c: normalised_lstm_step(lstm, norm, x, h, c), values)
