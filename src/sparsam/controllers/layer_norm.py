"""Layer-normalised LSTM controller (`layer_norm=True`).

Franke, Niehues and Waibel 2018, "Robust and Scalable Differentiable Neural Computer for Question Answering", with
the normalised LSTM of Ba, Kiros and Hinton 2016, "Layer Normalization".
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsam import checks
from sparsam.controllers.kind import register
from sparsam.controllers.lstm import begin_lstm
from sparsam.controllers.torch_modules import LSTMController, RecurrentKind
from sparsam.start import Start


class ControllerNorm(nn.Module):
    """Gains of the two products, and gain and bias of the cell; the products' biases are the LSTM's own."""

    def __init__(self, hidden_size: int, **factory: Any) -> None:
        super().__init__()
        self.input = nn.LayerNorm(4 * hidden_size, bias=False, **factory)
        self.hidden = nn.LayerNorm(4 * hidden_size, bias=False, **factory)
        self.cell = nn.LayerNorm(hidden_size, **factory)


class NormalisedLSTM(LSTMController):
    """An LSTM of one layer whose products and cell are normalised. It is driven step by step."""

    def __init__(self, input_size: int, hidden_size: int, **factory: Any) -> None:
        super().__init__(input_size, hidden_size, **factory)
        self.norm = ControllerNorm(hidden_size, **factory)

    def forward(self, x: Tensor, carried: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:  # type: ignore[override]
        """One step: x (B, I), h and c (B, H)."""
        hidden, cell = normalised_lstm_step(self, self.norm, x, *carried)
        return hidden, (hidden, cell)


def normalised_lstm_step(
    controller: nn.RNNBase, norm: ControllerNorm, x: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """i, f, g, o = LN(W_ih x_t) + b_ih + LN(W_hh h_{t-1}) + b_hh;   c_t as in `lstm_step`.

    h_t = sigmoid(o) tanh(LN(c_t)), where LN brings a vector to mean 0 and variance 1 and then applies a learned gain.
    """
    p: Any = controller  # torch does not type its parameters
    gates = norm.input(F.linear(x, p.weight_ih_l0)) + norm.hidden(F.linear(hidden, p.weight_hh_l0))
    i, f, g, o = (gates + p.bias_ih_l0 + p.bias_hh_l0).chunk(4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(norm.cell(cell)), cell


class NormalisedLSTMKind(RecurrentKind):
    name = "layer_norm_lstm"
    module = NormalisedLSTM
    carried = ("hidden", "cell")
    options: ClassVar = {"layer_norm": True}

    def make(self, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any) -> nn.Module:
        if num_layers != 1:
            raise ValueError(f"num_layers: expected 1 with a layer-normalised controller, got {num_layers}")
        if dropout:
            raise ValueError(
                f"dropout: expected 0 with a layer-normalised controller, which has one layer, got {dropout}"
            )
        return NormalisedLSTM(input_size, hidden_size, **factory)

    def begin(self, module: Any, start: Start) -> None:
        super().begin(module, start)  # what is normalised cannot be held by small weights
        begin_lstm(module, start)

    def step(self, module: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        hidden, after = module(x, (state.hidden, state.cell))
        return hidden, dict(zip(self.carried, after))


register(NormalisedLSTMKind())


def with_layer_norm(controller: Any, layer_norm: bool) -> Any:
    if not checks.boolean("layer_norm", layer_norm):
        return controller
    if controller != "lstm":
        raise ValueError(f"layer_norm: expected controller='lstm' beside it, got {controller!r}")
    return NormalisedLSTMKind.name
