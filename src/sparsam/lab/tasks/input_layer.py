"""A model behind an input layer, as one module."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

__all__ = ["WithInputLayer"]


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
