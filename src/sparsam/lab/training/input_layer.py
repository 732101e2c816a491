"""A task's own input layer before a model, trained with it.

A task that has `input_layer()` shows what a model cannot take as it is, such as images. The layer maps a batch's
inputs to vectors of the task's `input_size`, and with `scores` the model's outputs to what the task's loss expects.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sparsam import model_description
from sparsam.lab.tasks.input_layer import WithInputLayer
from sparsam.lab.training.model_config import ModelConfig

__all__ = ["WithInputLayer", "build_model"]

PREFIX = "input_layer."


def build_model(config: ModelConfig, task: Any) -> nn.Module:
    """The model for a task, behind the task's input layer where it has one."""
    # The layer is drawn first: with one seed it begins the same way before every model.
    layer = task.input_layer() if hasattr(task, "input_layer") else None
    model = config.build(task.input_size, task.output_size)
    return model if layer is None else WithInputLayer(layer, model)


def described(model: nn.Module) -> str | None:
    """The description that goes into the model's weights files; None for a model that none can be written of."""
    try:
        return model_description.describe(model).to_json()
    except ValueError:
        return None


def inner_model(model: nn.Module) -> nn.Module:
    """The model without an input layer."""
    return model.model if isinstance(model, WithInputLayer) else model


def with_own_rest(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of an input layer, or of a part of one, completed by the model's own; other weights as they are."""
    if not weights or not all(name.startswith(PREFIX) for name in weights):
        return weights
    return {**model.state_dict(), **weights}


def set_learning(layer: nn.Module, on: bool) -> None:
    """Let a layer learn, or leave it as it is: its gradients then stay zero."""
    for parameter in layer.parameters():
        parameter.requires_grad_(on)


def late_part(model: nn.Module) -> nn.Module | None:
    """What of the input layer `optimizer.input_layer_from` is about: its `late` part, or all of it."""
    if not isinstance(model, WithInputLayer):
        return None
    late = getattr(model.input_layer, "late", model.input_layer)
    return late if isinstance(late, nn.Module) else None
