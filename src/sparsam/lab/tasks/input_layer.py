"""A task's own input layer before a model, trained with it.

A task that has `input_layer()` shows what a model cannot take as it is, such as images. The layer maps a batch's
inputs to vectors of the task's `input_size`, and with `scores` the model's outputs to what the task's loss expects.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sparsam import model_description

PREFIX = "input_layer."


class WithInputLayer(nn.Module):
    """`model` behind `input_layer`; the calling convention is the model's, and so is what else is asked of it."""

    def __init__(self, input_layer: nn.Module, model: nn.Module) -> None:
        super().__init__()
        self.input_layer, self.model = input_layer, model

    @property
    def input_size(self) -> int:
        """Width of what the layer takes."""
        inner: Any = self.model
        return int(getattr(self.input_layer, "shown_size", inner.input_size))

    @property
    def output_size(self) -> int:
        """Width of what comes out, the scores where the layer makes some."""
        inner: Any = self.model
        return int(getattr(self.input_layer, "score_size", inner.output_size))

    def __getattr__(self, name: str) -> Any:  # only asked for what is not there
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def forward(self, inputs: Tensor, *args: Any, **options: Any) -> tuple[Tensor, Any]:
        outputs, state = self.model(self.input_layer(inputs), *args, **options)
        scores = getattr(self.input_layer, "scores", None)
        return (outputs if scores is None else scores(outputs)), state


def build_model(config: Any, task: Any) -> nn.Module:
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
