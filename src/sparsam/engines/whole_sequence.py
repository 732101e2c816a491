"""What the engines share that run a whole sequence as one node of the autograd graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def parameters(model: Any) -> tuple[Tensor, ...]:
    """Weights and biases of controller, interface and output layer, in the order of the node's arguments."""
    lstm = model.controller
    return (
        lstm.weight_ih_l0,
        lstm.weight_hh_l0,
        lstm.bias_ih_l0,
        lstm.bias_hh_l0,
        model.interface.weight,
        model.interface.bias,
        model.output.weight,
        model.output.bias,
    )


def require_first_backward(engine: str, held: Any) -> None:
    """Such a node is differentiated once, and once only: its tape becomes the gradients.

    Raises RuntimeError for a second derivative, and for a second pass over the tape, which is then None.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"the {engine} engine has no second derivatives (create_graph=True asks for them); use engine='reference'"
        )
    if held is None:
        raise RuntimeError(
            f"the {engine} engine runs a backward pass once per forward pass, since its tape becomes the gradients; "
            "call the model again (retain_graph=True does not help), or use engine='reference'"
        )
