"""The GRU controller: `nn.GRU`, one layer or several."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsam.controllers.kind import register
from sparsam.controllers.torch_modules import GRUController, RecurrentKind
from sparsam.start import Start


def gru_step(controller: nn.RNNBase, x: Tensor, hidden: Tensor) -> Tensor:
    """h_t = GRU(x_t, h_{t-1}) with the gates in the order of `nn.GRU` (Cho et al. 2014, as torch has it).

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr);   z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r (W_hn h + b_hn));   h_t = (1 - z) n + z h
    """
    p: Any = controller  # torch does not type its parameters
    from_x = F.linear(x, p.weight_ih_l0, p.bias_ih_l0).chunk(3, dim=-1)
    from_h = F.linear(hidden, p.weight_hh_l0, p.bias_hh_l0).chunk(3, dim=-1)
    reset, update = (torch.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2]))
    new = torch.tanh(from_x[2] + reset * from_h[2])
    return (1 - update) * new + update * hidden


class GRUKind(RecurrentKind):
    name = "gru"
    module = GRUController
    twin = nn.GRU
    fused = "gru"
    carried = ("hidden",)
    plain_step = staticmethod(gru_step)

    @torch.no_grad()
    def begin(self, module: Any, start: Start) -> None:
        super().begin(module, start)
        for layer in range(module.num_layers):
            getattr(module, f"bias_hh_l{layer}").view(3, -1)[1] += start.forget  # z keeps h_{t-1}


register(GRUKind())
