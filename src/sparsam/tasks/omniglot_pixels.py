"""Omniglot from pixels: the drawings as they are, seen through a small convolutional network that is trained with the
model (`sparsam.tasks.labelled_images.LabelledImages`).

Episodes, splits, labels and augmentation are those of `sparsam.tasks.omniglot.Omniglot`: neither normalisation nor
stroke directions. The paper shows pixels and one-hot labels to the controller itself and has it answer in one-hot
labels; here both go through the input layer, for every model alike.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from sparsam.tasks.labelled_images import LabelledImages
from sparsam.tasks.omniglot import Omniglot

__all__ = ["OmniglotPixels"]


class OmniglotPixels(Omniglot):
    """Episodes of hand-written characters, with an input layer.

    Args:
        root: where the data is; see `sparsam.data.locate`.
        features, channels, label_size, fixed_norm: of the input layer.
        image_size, settings: see `sparsam.tasks.omniglot.Omniglot`; `normalise` and `strokes` are not among them.
    """

    name = "omniglot_pixels"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        image_size: int = 28,
        features: int = 64,
        channels: Sequence[int] = (32, 64, 128, 128),
        label_size: int = 64,
        fixed_norm: bool = False,
        **settings: Any,
    ) -> None:
        for key in ("normalise", "strokes"):
            if key in settings:
                raise ValueError(f"{key}: expected none, this task shows pixels as they are, got {settings[key]!r}")
        super().__init__(root, image_size=image_size, **settings)
        self._layer: dict[str, Any] = {
            "features": features,
            "channels": tuple(channels),
            "label_size": label_size,
            "fixed_norm": fixed_norm,
        }
        with torch.device("meta"):  # takes no random numbers
            layer = self.input_layer()
        self.input_size, self.output_size = layer.input_size, layer.output_size

    def input_layer(self) -> LabelledImages:
        """A fresh input layer; the trainer puts it before the model and trains both."""
        return LabelledImages(self.image_size, self.labels, **self._layer)
