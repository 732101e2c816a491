"""What a model's first weights are moved to before training.

A fresh memory model writes half-heartedly, adds half of it to what it read before and looks up by queries that have
nothing to do with what was stored; it can take very long to find out what the memory is for. Gates that begin open and
queries that begin as the words written let the first minibatches read what was written. Where what is looked up was
seen a step ago, gates that differ from step to step blur it: a controller that begins as a feed-forward layer asks
about the same thing in the same way whatever came before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sparsam.argument_types import check_fields
from sparsam.controllers import kind_of


@dataclass
class StartConfig:
    """Added to first biases, or factors of first weights, of a model with SAM's interface (SAM, SDNC, DAM)."""

    forget: float = 0.0  # added to the bias of the controller's forget gate; any model with an LSTM
    feedforward: float = 0.0  # above 0: an LSTM begins as a feed-forward layer, its gates held by this bias
    write: float = 0.0  # added to the bias of the write gate alpha: above 0 writes more
    reuse: float = 0.0  # added to the bias of gamma: below 0 writes to unused words, above 0 to those read before
    sharpness: float = 0.0  # added to the bias of beta: above 0 reads more sharply
    words: float = 1.0  # factor of the weights of queries and write words
    tied: bool = False  # write words begin with the weights of the queries

    def __post_init__(self) -> None:
        check_fields(self, "start.")
        if self.feedforward < 0:
            raise ValueError(f"start.feedforward: expected at least 0, got {self.feedforward}")

    def apply(self, model: Any) -> None:
        """Change the weights of `model` in place."""
        if self.feedforward:
            self.apply_feedforward(model.controller)
        with torch.no_grad():
            if self.forget:
                bias = getattr(model.controller, "bias_hh_l0", None)
                if bias is None or len(bias) != 4 * model.hidden_size:
                    raise ValueError("start.forget: expected 0 for a controller without a forget gate")
                bias.view(4, -1)[1] += self.forget
            if self == StartConfig(forget=self.forget, feedforward=self.feedforward):
                return
            if model.name not in ("sam", "sdnc", "dam"):
                raise ValueError(f"start: {model.name} has no interface like SAM's; only its controller can be moved")
        self.apply_interface(model.interface, model.num_heads, model.word_size)

    @torch.no_grad()
    def apply_feedforward(self, controller: Any) -> None:
        """Change each layer to h_t = o tanh(i tanh(W x_t + b) + f c_{t-1}), o = i = sigmoid(`feedforward`) = 1 - f."""
        if kind_of(controller).name != "lstm":
            raise ValueError(
                f"start.feedforward: expected 0 for a controller that is not an LSTM, got {self.feedforward}"
            )
        for layer in range(controller.num_layers):
            into, recurrent, bias, other = (
                getattr(controller, f"{part}_l{layer}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            gates = [0, 1, 3]  # torch's order: input, forget, cell, output
            into.unflatten(0, (4, -1))[gates] = 0.0
            recurrent.zero_()
            other.zero_()
            held = torch.tensor([[1.0], [-1.0], [1.0]]) * self.feedforward
            bias.view(4, -1)[gates] = held.to(bias)

    @torch.no_grad()
    def apply_interface(self, interface: Any, heads: int, word_size: int) -> None:
        """Change a linear layer whose rows are SAM's interface: queries, write words, beta, alpha, gamma."""
        words, weight, bias = heads * word_size, interface.weight, interface.bias
        beta, alpha, gamma = bias[2 * words : 2 * words + 3 * heads].view(3, heads)
        beta += self.sharpness
        alpha += self.write
        gamma += self.reuse
        weight[: 2 * words] *= self.words
        if self.tied:
            weight[words : 2 * words] = weight[:words]
            bias[words : 2 * words] = bias[:words]
