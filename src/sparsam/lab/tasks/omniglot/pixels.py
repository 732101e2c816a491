"""Omniglot from pixels: the drawings as they are, seen through a small convolutional network that is trained with the
model (`sparsam.lab.tasks.omniglot.labelled_images.LabelledImages`).

Episodes, splits, labels and augmentation are those of `tasks.omniglot.episodes.Omniglot`. The paper shows pixels and
one-hot labels to the controller itself and has it answer in one-hot labels; here both go through the input layer, for
every model alike.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from sparsam.lab.tasks.omniglot.episodes import Omniglot
from sparsam.lab.tasks.omniglot.labelled_images import LabelledImages
from sparsam.lab.tasks.task import Batch, register

__all__ = ["OmniglotPixels"]

LAYER = ("features", "channels", "label_size", "fixed_norm")  # settings of the input layer


@register
class OmniglotPixels(Omniglot):
    """Episodes of hand-written characters, with an input layer.

    Args:
        root: where the data is; see `sparsam.lab.data.locate`.
        features, channels, label_size, fixed_norm: of the input layer.
        image_size, settings: see `tasks.omniglot.episodes.Omniglot`.
    """

    name = "omniglot_pixels"

    def __init__(
        self, root: str | os.PathLike[str] | None = None, *, image_size: int = 28, labels: int = 500, **settings: Any
    ) -> None:
        layer = {key: settings.pop(key) for key in LAYER if key in settings}
        super().__init__(root, labels, image_size=image_size, **settings)
        self._layer: dict[str, Any] = {"image_size": image_size, "labels": labels, **layer}
        with torch.device("meta"):  # takes no random numbers
            made = self.input_layer()
        self.input_size, self.output_size = made.input_size, made.output_size

    def evaluation_batches(
        self, split: str, batch_size: int, size: int | None = None, episodes: int | None = None
    ) -> Iterator[Batch]:
        """The same episodes each time, whatever the batch size: each is drawn with a seed of its own."""
        size = self.evaluation_size if size is None else size
        episodes = self.evaluation_episodes if episodes is None else episodes
        self.characters(split)
        order = {"train": 0, "validation": 1, "test": 2}[split]
        for start in range(0, episodes, batch_size):
            numbers = range(start, min(start + batch_size, episodes))
            seeds = [1_000_003 * size + 3 * number + order for number in numbers]
            yield _side_by_side(
                [self.sample_size(1, torch.Generator().manual_seed(seed), size, split) for seed in seeds]
            )

    def input_layer(self) -> LabelledImages:
        """A fresh input layer; the trainer puts it before the model and trains both."""
        return self.layer_of(**self._layer)

    @staticmethod
    def layer_of(image_size: int = 28, labels: int = 500, **settings: Any) -> LabelledImages:
        """The input layer of a task with these settings, for which no data is needed."""
        return LabelledImages(image_size, labels, **{key: settings[key] for key in LAYER if key in settings})


def _side_by_side(batches: list[Batch]) -> Batch:
    """Episodes of the same size as one batch."""
    first, shown = batches[0], ("presentation", "character")
    inputs, targets, mask = (
        torch.cat([getattr(batch, name) for batch in batches], dim=1) for name in ("inputs", "targets", "mask")
    )
    info = first.info | {name: torch.cat([batch.info[name] for batch in batches], dim=1) for name in shown}
    return Batch(inputs, targets, mask, level=first.level, info=info, answers=first.answers)
