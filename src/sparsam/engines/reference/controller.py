"""The controller: one layer of LSTM (section 3.3), one step at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def lstm_step(controller: nn.LSTM, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1}) with the gates in the order of `nn.LSTM`.

    i, f, g, o = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
    c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);   h_t = sigmoid(o) tanh(c_t)
    """
    p: Any = controller  # torch does not type its parameters
    gates = F.linear(x, p.weight_ih_l0, p.bias_ih_l0) + F.linear(hidden, p.weight_hh_l0, p.bias_hh_l0)
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell
