"""Layer-normalised controller (`layer_norm=True`).

Franke, Niehues and Waibel 2018, "Robust and Scalable Differentiable Neural Computer for Question Answering", with
the normalised LSTM of Ba, Kiros and Hinton 2016, "Layer Normalization".
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ControllerNorm(nn.Module):
    """Gains of the two products, and gain and bias of the cell; the products' biases are the LSTM's own."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.LayerNorm(4 * hidden_size, bias=False)
        self.hidden = nn.LayerNorm(4 * hidden_size, bias=False)
        self.cell = nn.LayerNorm(hidden_size)


def normalised_lstm_step(
    controller: nn.LSTM, norm: ControllerNorm, x: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """i, f, g, o = LN(W_ih x_t) + b_ih + LN(W_hh h_{t-1}) + b_hh;   c_t as in `lstm_step`.

    h_t = sigmoid(o) tanh(LN(c_t)), where LN brings a vector to mean 0 and variance 1 and then applies a learned gain.
    """
    p: Any = controller  # torch does not type its parameters
    gates = norm.input(F.linear(x, p.weight_ih_l0)) + norm.hidden(F.linear(hidden, p.weight_hh_l0))
    i, f, g, o = (gates + p.bias_ih_l0 + p.bias_hh_l0).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(norm.cell(cell)), cell
