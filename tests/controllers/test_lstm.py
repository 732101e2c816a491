"""One step of the controller equals `nn.LSTM`."""

from __future__ import annotations

import torch

from sparsam.controllers.lstm import lstm_step


def test_equals_nn_lstm():
    lstm = torch.nn.LSTM(3, 5)
    x, h, c = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 5)
    hidden, cell = lstm_step(lstm, x, h, c)
    _, (expected_h, expected_c) = lstm(x[None], (h[None], c[None]))
    torch.testing.assert_close(hidden, expected_h[0])
    torch.testing.assert_close(cell, expected_c[0])
