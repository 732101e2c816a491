"""The LSTM controller (section 3.3): an `nn.LSTM`, one layer or several."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsam.controllers.kind import register
from sparsam.controllers.torch_modules import LSTMController, RecurrentKind
from sparsam.start import Start


def lstm_step(controller: nn.RNNBase, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1}) with the gates in the order of `nn.LSTM`.

    i, f, g, o = W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
    c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);   h_t = sigmoid(o) tanh(c_t)
    """
    p: Any = controller  # torch does not type its parameters
    gates = F.linear(x, p.weight_ih_l0, p.bias_ih_l0) + F.linear(hidden, p.weight_hh_l0, p.bias_hh_l0)
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


@torch.no_grad()
def begin_lstm(controller: nn.RNNBase, start: Start) -> None:
    """Move the forget gates, and with `start.feedforward` the weights that make every layer a feed-forward one.

    Such a layer is h_t = o tanh(i tanh(W x_t + b) + f c_{t-1}) with o = i = sigmoid(start.feedforward) = 1 - f.
    """
    gates = [0, 1, 3]  # torch's order: input, forget, cell, output
    for layer in range(controller.num_layers):
        into, recurrent, bias, other = (
            getattr(controller, f"{part}_l{layer}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        if start.feedforward:
            into.unflatten(0, (4, -1))[gates] = 0.0
            recurrent.zero_()
            other.zero_()
            held = bias.new_tensor([[1.0], [-1.0], [1.0]]) * start.feedforward
            bias.view(4, -1)[gates] = held
        other.view(4, -1)[1] += start.forget


class LSTMKind(RecurrentKind):
    name = "lstm"
    module = LSTMController
    twin = nn.LSTM
    fused = "lstm"
    carried = ("hidden", "cell")
    plain_step = staticmethod(lstm_step)

    def begin(self, module: Any, start: Start) -> None:
        begin_lstm(module, start)


register(LSTMKind())
