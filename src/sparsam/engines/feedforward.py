"""A feed-forward controller inside an engine's loop over LSTMs and GRUs: a GRU that keeps nothing.

With the update gate shut and no weights from h_{t-1} a GRU is a feed-forward layer (`sparsam.controllers`):

    h_t = (1 - z) tanh(W_n [x_t, r_{t-1}] + b_n) + z h_{t-1},   z = sigmoid(SHUT).

An engine then needs no further controller. The two unused gates cost less than leaving the loop at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.engine import Controller, Ran
from sparsam.memories.memory import Memory

FEEDFORWARD = "feedforward"
SHUT = -40.0  # z is 4e-18: 1 - z is 1 in float64 too, and no product with z is too small for a normal number

Run = Callable[[Memory, Controller, Tensor, Any, Tensor | None, bool], Ran]


def as_gru(controller: Controller) -> Controller:
    """A GRU that computes what the feed-forward `controller` does, for its weights (W, b)."""
    weight, bias = controller.weights
    hidden = controller.hidden
    none = weight.new_zeros(3 * hidden, hidden)
    gates = weight.new_zeros(2 * hidden, weight.shape[1])
    shut = torch.cat([bias.new_zeros(hidden), bias.new_full((hidden,), SHUT)])
    weights = (torch.cat([gates, weight]), none, torch.cat([shut, bias]), none[:, 0])
    return controller._replace(name="gru", weights=weights)


def run_feedforward(
    run: Run, memory: Memory, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> Ran:
    """`run` of the feed-forward `controller` by an engine that has a GRU; the state carries nothing for it."""
    before = state.with_fields(hidden=state.read.new_zeros(x.shape[1], controller.hidden))
    ran = run(memory, as_gru(controller), x, before, ends, record)
    return ran._replace(fields={name: value for name, value in ran.fields.items() if name != "hidden"})
