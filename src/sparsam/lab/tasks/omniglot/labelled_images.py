"""What tasks over labelled images share: an input layer that is trained with the model.

A step shows an image and the label of the image before it. The layer makes of step t

    x_t = [TOGETHER (f_t + f_{t-1}), APART (f_t - f_{t-1}), v(label_{t-1})],   f_t = f(image_t)

where f is a small convolutional network, the same at every step, and v a table of label vectors. The last image stands
beside its own label, so that what belongs together arrives together; nothing in x_t was not shown up to step t. Sum and
difference say the same as the two features side by side. With the smaller weight on the difference a fresh model makes
much the same of an image when it is asked about and when its label comes a step later, which is where recall begins.
Answers are vectors, and their products with the label vectors are the scores: what a model learns about one label holds
for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sparsam.lab.argument_types import require
from sparsam.lab.tasks.input_layer import WithInputLayer
from sparsam.model_description import InputLayer, flag, short, whole

__all__ = ["ImageEncoder", "LabelledImages"]

TOGETHER, APART = 0.7, 0.2  # weights of sum and difference
CHUNK = 8192  # images at once; the backward pass of one chunk is what has to be kept


class Statistics(nn.Module):
    """Batch normalisation whose statistics are plain buffers, with nothing counted beside them."""

    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: Tensor, of_this_batch: bool) -> Tensor:
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, of_this_batch)


class ImageEncoder(nn.Module):
    """Images (n, side, side) to features (n, F) of length sqrt(F): the angle between two of them is what counts.

    Convolutions of 3 x 3, each with batch normalisation and a rectifier; pooling after all but the last but one. On a
    GPU they are computed in bfloat16.

    Args:
        side: of the images.
        features: F.
        channels: of the convolutions.
        fixed_norm: normalise by the statistics that the encoder came with, in training too: an image's features then
            depend on no other image.
    """

    def __init__(
        self, side: int, features: int = 64, channels: Sequence[int] = (32, 64, 128, 128), fixed_norm: bool = False
    ) -> None:
        super().__init__()
        if not channels or min(channels) < 1:
            raise ValueError(f"channels: expected at least one layer of at least one channel, got {list(channels)}")
        require(features >= 1, "features", "at least 1", features)
        self.side, self.features, self.fixed_norm = side, features, fixed_norm
        self.pooled = [place != len(channels) - 2 for place in range(len(channels))]
        left = side
        for pooled in self.pooled:
            left = left // 2 if pooled else left
        require(left >= 1, "side", f"at least {2 ** sum(self.pooled)} for {len(channels)} layers", side)
        inputs = [1, *channels[:-1]]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(inputs, channels, strict=True))
        self.norms = nn.ModuleList(Statistics(count) for count in channels)
        self.last = nn.Linear(channels[-1] * left**2, features)

    def forward(self, images: Tensor) -> Tensor:
        learning = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        if len(images) <= CHUNK:
            return self._encode(images)
        parts = images.split(CHUNK)
        if learning:  # what lies between image and features is computed again on the way back
            return torch.cat([checkpoint(self._encode, part, use_reentrant=False) for part in parts])
        return torch.cat([self._encode(part) for part in parts])

    def _encode(self, images: Tensor) -> Tensor:
        kind = torch.bfloat16 if images.is_cuda else images.dtype
        x = images.unsqueeze(1).to(kind, memory_format=torch.channels_last)
        layers = zip(self.convolutions, self.norms, self.pooled, strict=True)
        for convolution, norm, pooled in layers:
            weight, bias = (parameter.to(kind) for parameter in convolution.parameters())
            x = F.conv2d(x, weight, bias, padding=1)
            x = F.relu(norm(x, self.training and not self.fixed_norm))
            if pooled:
                x = F.max_pool2d(x, 2)
        y = F.linear(x.flatten(1).to(self.last.weight.dtype), self.last.weight, self.last.bias)
        return F.normalize(y, dim=-1) * math.sqrt(self.features)

    def extra_repr(self) -> str:
        return f"side={self.side}, features={self.features}"


class LabelledImages(nn.Module):
    """Steps (T, B, side^2 + labels) of pixels and a one-hot label to vectors (T, B, 2 F + V), and answers to scores.

    Args:
        side: of the images.
        labels: how many there are.
        features, channels, fixed_norm: of the `ImageEncoder`.
        label_size: V, the width of the label vectors and of the answers.
    """

    def __init__(
        self,
        side: int,
        labels: int,
        features: int = 64,
        channels: Sequence[int] = (32, 64, 128, 128),
        label_size: int = 64,
        fixed_norm: bool = False,
    ) -> None:
        super().__init__()
        require(label_size >= 1, "label_size", "at least 1", label_size)
        self.images = ImageEncoder(side, features, channels, fixed_norm)
        self.table = nn.Parameter(torch.randn(labels, label_size))
        self.shown_size, self.score_size = side**2 + labels, labels  # of what a step shows, and of the scores
        self.input_size, self.output_size = 2 * features + label_size, label_size  # of what the model sees and answers

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor, for the description in a weights file."""
        images = self.images
        channels = [convolution.out_channels for convolution in images.convolutions]
        labels, label_size = self.table.shape
        sizes = {"side": images.side, "labels": labels, "features": images.features, "channels": channels}
        return {**sizes, "label_size": label_size, "fixed_norm": images.fixed_norm}

    @property
    def late(self) -> nn.Module:
        """What a run may leave as it is at first (`optimizer.input_layer_from`)."""
        return self.images

    def forward(self, inputs: Tensor) -> Tensor:
        pixels = self.images.side**2
        shown = self.features_of(inputs)
        before = torch.cat([torch.zeros_like(shown[:1]), shown[:-1]])
        both, apart = TOGETHER * (shown + before), APART * (shown - before)
        return torch.cat([both, apart, inputs[..., pixels:] @ self.table], dim=-1)

    def features_of(self, inputs: Tensor) -> Tensor:
        """Features (T, B, F) of the images of steps (T, B, side^2 + labels)."""
        side = self.images.side
        images = inputs[..., : side**2].reshape(-1, side, side)
        return self.images(images).view(*inputs.shape[:-1], -1)

    def scores(self, answers: Tensor) -> Tensor:
        """Logits (T, B, labels) of answers (T, B, V)."""
        return answers @ self.table.T / math.sqrt(self.table.shape[1])


def _channels(path: str, value: Any) -> list[int]:
    if not isinstance(value, list) or not 1 <= len(value) <= 16:
        raise ValueError(f"{path}: expected a list of 1 to 16 channels, got {short(value)}")
    return [whole(1, 4096)(f"{path}[{place}]", entry) for place, entry in enumerate(value)]


_FIELDS = {
    "side": whole(1, 1024),
    "labels": whole(1, 2**16),
    "features": whole(1, 4096),
    "channels": _channels,
    "label_size": whole(1, 4096),
    "fixed_norm": flag,
}
INPUT_LAYER = InputLayer(_FIELDS, LabelledImages, WithInputLayer)  # registered by `sparsam.lab`
