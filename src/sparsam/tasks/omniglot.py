"""Omniglot: one-shot recognition of hand-written characters (SAM paper, section 4.5; Santoro et al. 2016).

An episode shows c characters ``presentations`` times each (10), in random order: T = 10 c steps. Step t sees

    x_t = [image_t, one-hot label of step t - 1]        (no label at t = 0)

and the right answer is the label of image t. Labels are drawn anew in every episode, c different ones of
``labels``, so nothing about them can be learned but what the episode says. The width of the one-hot labels is
``labels`` whatever c is: a model trained on few characters can be tested on many.

A character is turned by a random multiple of 90 degrees for the whole episode, and every presentation is
another of its 20 drawings, turned a little, stretched and shifted (Santoro et al.: up to pi/16 and 10 of 105
pixels). An episode with more characters than its split holds uses some of them in two or more orientations,
as different characters.

With ``normalise`` the model sees every drawing the way character recognisers have long been fed (moment
normalisation, Casey 1970): the ink's centre of mass in the middle, its covariance turned into a multiple of the
identity, the mean training image taken off, and a variance of one over the pixels. It is a fixed function of the
image that is shown, up to ink that the warp would push over the edge, and takes most of the shift and the stretch off
again. Without it SAM needs thousands of minibatches to begin using its memory.

The loss is the mean cross entropy over all steps. The first presentation of a character can only be guessed,
so a perfect learner still has a loss of about log(labels) / presentations (:meth:`Omniglot.floor`) and an
error of about 1 / presentations; errors are therefore reported by presentation number as well.

Splits: test characters are those of ``images_evaluation`` (659), validation and training characters share
those of ``images_background`` (164 and 800 of 964).

Measured on one core of a 2-core machine, 20 x 20 images, 500 labels: 150,000 to 190,000 steps a second (190
episodes of 100 characters, 32 of 500); the first preparation takes 4 s, from the cache 0.1 s.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.data.omniglot import DRAWINGS, load_images
from sparsam.tasks.task import Batch

__all__ = ["Augmentation", "Omniglot", "OmniglotTable"]

SPREAD = 0.4  # standard deviation of the ink along every axis of a normalised image, which spans 2
_THICKNESS = 0.01  # added to its variances, so that a single line does not fill the image
_CHUNK = 512  # images that are warped at once; few enough to stay in the processor's cache


class Augmentation:
    """Random small changes of a drawing, and the warp that applies them.

    :param angle: largest rotation in radians, either way.
    :param stretch: width and height are scaled, each by a factor from U(1 - stretch, 1 + stretch).
    :param shift: largest shift along each axis, as a share of the image's side.
    """

    def __init__(self, angle: float = math.pi / 16, stretch: float = 0.15, shift: float = 10 / 105) -> None:
        if angle < 0 or shift < 0 or not 0 <= stretch < 1:
            raise ValueError(
                f"angle and shift must not be negative and stretch must be in [0, 1), "
                f"got {angle}, {shift} and {stretch}"
            )
        self.angle, self.stretch, self.shift = angle, stretch, shift

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, 5): angle, scale x, scale y, shift x, shift y (a share of the side)."""
        uniform = 2 * torch.rand(count, 5, generator=generator) - 1
        size = torch.tensor([self.angle, self.stretch, self.stretch, self.shift, self.shift])
        return uniform * size + torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0])

    @staticmethod
    def warp(
        images: Tensor, quarters: Tensor, changes: Tensor, size: int, moments: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Images (n, s, s) turned by ``quarters`` times 90 degrees and changed by ``draw``'s numbers, at a
        new size.

        The map goes from places in the result to places in the image, p = S^-1 R^-1 (p' - shift) = A p' + b. With
        the images' :func:`ink_moments` m and C the result is normalised as well: its own moments would be
        A^-1 (m - b) and C' = A^-1 C A^-T, so that p = m + A C'^1/2 p' / SPREAD.
        """
        angle, scale, shift = changes[:, 0] + quarters * (math.pi / 2), changes[:, 1:3], changes[:, 3:5]
        cos, sin = angle.cos(), angle.sin()
        rotate = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        matrix = rotate / scale.unsqueeze(-1)
        offset = -(matrix @ (2 * shift).unsqueeze(-1))  # the image spans 2 from edge to edge
        if moments is not None:
            mean, covariance = moments
            back = torch.linalg.inv(matrix)
            matrix = matrix @ square_root(back @ covariance @ back.mT + _THICKNESS * torch.eye(2)) / SPREAD
            offset = mean.unsqueeze(-1)
        # F.affine_grid would multiply matrices for every pixel; rows and columns added up cost a third of it.
        place = (2 * torch.arange(size, dtype=images.dtype) + 1) / size - 1
        by_column = matrix[:, None, None, :, 0] * place[:, None]  # (n, 1, size, 2)
        by_row = (matrix[:, :, 1].unsqueeze(1) * place[:, None] + offset.transpose(1, 2)).unsqueeze(2)
        grid = by_column + by_row
        return F.grid_sample(images.unsqueeze(1), grid, align_corners=False).squeeze(1)


def ink_moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centre of mass (n, 2) and covariance (n, 2, 2), x before y, of the ink of images (n, s, s) that span 2."""
    side = images.shape[-1]
    place = (2 * torch.arange(side) + 1) / side - 1
    ink = images.float() + 1e-6  # an empty image has its centre in the middle
    ink = ink / ink.sum((1, 2), keepdim=True)
    grid = torch.stack([place.expand(side, side), place[:, None].expand(side, side)], -1).view(-1, 2)
    products = (grid.unsqueeze(-1) * grid.unsqueeze(-2)).view(-1, 4)
    mean = ink.flatten(1) @ grid
    return mean, (ink.flatten(1) @ products).view(-1, 2, 2) - mean.unsqueeze(-1) * mean.unsqueeze(-2)


def square_root(matrix: Tensor) -> Tensor:
    """The symmetric root of positive definite (n, 2, 2): (C + d I) / sqrt(tr C + 2 d) with d = sqrt(det C)."""
    root = torch.linalg.det(matrix).clamp_min(1e-9).sqrt()[:, None, None]
    trace = matrix.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return (matrix + root * torch.eye(2)) / (trace + 2 * root).sqrt()


class OmniglotTable:
    """Wrong answers by presentation number, added up over batches."""

    def __init__(self, presentations: int = 10) -> None:
        self.asked = np.zeros(presentations, np.int64)
        self.wrong = np.zeros(presentations, np.int64)

    def add(self, outputs: Tensor, batch: Batch) -> None:
        """Take in a batch and what a model answered to it."""
        wrong = (outputs.detach().argmax(-1) != batch.targets).cpu().numpy()
        number = batch.info["presentation"].numpy()
        self.asked += np.bincount(number.ravel(), minlength=len(self.asked))
        self.wrong += np.bincount(number[wrong], minlength=len(self.asked))

    @property
    def errors(self) -> list[float]:
        """Error at the 1st, 2nd, ... presentation."""
        return (self.wrong / np.maximum(self.asked, 1)).tolist()

    def summary(self) -> dict[str, float]:
        """Headline first: the error over all steps, then by presentation number."""
        each = {f"presentation_{number}": error for number, error in enumerate(self.errors, start=1)}
        return {"error_rate": float(self.wrong.sum() / max(1, self.asked.sum())), **each}


class Omniglot:
    """Episodes of hand-written characters.

    :param root: where the data is; see :mod:`sparsam.data.locate`.
    :param labels: width of the one-hot labels, the largest number of characters in an episode.
    :param min_size, max_size: characters in a training episode, U(min_size, max_size), when no level is
        given.
    :param presentations: how often each character is shown, at most 20.
    :param image_size: side of the images that the model sees.
    :param scale: the value that stands for one in the one-hot labels of the input, one number beside hundreds of
        pixels: with 1 a model needs thousands of minibatches to hear it at all.
    :param normalise: show the drawings normalised, see above; False: as they are, in [0, 1].
    :param pool: labels of training episodes at level h come from the first ``pool`` times h, and only their outputs
        enter the loss, as if the output layer grew with the level; 0: always from all of them. With all 500 from the
        start each one is too rare for the model to learn what to do with it.
    :param min_share: training episodes at level h have U(min_share h, h) characters, at least one; 0: U(1, h). Small
        episodes teach the habit of guessing among the labels seen so far, which keeps the memory from being used.
    :param validation: characters held out of training for choosing runs.
    :param seed: which ones they are.
    :param augment: turn, stretch and shift; False shows the drawings as they are (in every split).
    :param evaluation_size: characters in the episodes of ``evaluation_batches``.
    :param evaluation_episodes: how many of them there are.
    :param verify: compare the images with the official ones.
    """

    name = "omniglot"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        labels: int = 500,
        min_size: int = 2,
        max_size: int = 100,
        presentations: int = 10,
        image_size: int = 20,
        scale: float = 1.0,
        normalise: bool = False,
        pool: float = 0.0,
        min_share: float = 0.0,
        validation: int = 164,
        seed: int = 0,
        augment: bool = True,
        evaluation_size: int = 100,
        evaluation_episodes: int = 32,
        verify: bool = True,
    ) -> None:
        if not 1 <= min_size <= max_size <= labels:
            raise ValueError(
                f"sizes must satisfy 1 <= min_size <= max_size <= labels, got {min_size}, {max_size} and {labels}"
            )
        if not 1 <= evaluation_size <= labels:
            raise ValueError(f"evaluation_size must be from 1 to labels ({labels}), got {evaluation_size}")
        if not 1 <= presentations <= DRAWINGS:
            raise ValueError(f"presentations must be from 1 to {DRAWINGS}, got {presentations}")
        if image_size < 1:
            raise ValueError(f"image_size must be at least 1, got {image_size}")
        if scale <= 0:
            raise ValueError(f"scale must be positive, got {scale}")
        if pool != 0 and pool < 1:
            raise ValueError(f"pool must be 0 (all labels) or at least 1, got {pool}")
        if not 0 <= min_share <= 1:
            raise ValueError(f"min_share must be from 0 to 1, got {min_share}")
        self.labels, self.presentations, self.image_size = labels, presentations, image_size
        self.scale, self.pool, self.min_share = scale, pool, min_share
        self.min_size, self.max_size = min_size, max_size
        self.evaluation_size, self.evaluation_episodes = evaluation_size, evaluation_episodes
        self.input_size, self.output_size = image_size**2 + labels, labels
        self.augmentation = Augmentation() if augment else None
        data = load_images(root, verify=verify)
        self._images = torch.from_numpy(data.images)
        background, test = np.flatnonzero(~data.evaluation), np.flatnonzero(data.evaluation)
        if not 0 < validation < len(background):
            raise ValueError(f"validation must be from 1 to {len(background) - 1} characters, got {validation}")
        shuffled = np.random.default_rng(seed).permutation(background)
        self._splits = {
            "train": np.sort(shuffled[validation:]),
            "validation": np.sort(shuffled[:validation]),
            "test": test,
        }
        self._moments = ink_moments(self._images.flatten(0, 1)) if normalise else None
        self._mean, self._deviation = self._pixel_statistics() if normalise else (torch.zeros(1), 1.0)

    def characters(self, split: str) -> np.ndarray:
        """Numbers of the characters of a split; no character is in two."""
        if split not in self._splits:
            raise ValueError(f"split must be 'train', 'validation' or 'test', got {split!r}")
        return self._splits[split]

    def floor(self, size: int, pool: int | None = None) -> float:
        """Loss of a learner that guesses first presentations among the labels left and knows all others."""
        labels = self.labels if pool is None else pool
        return sum(math.log(labels - seen) for seen in range(size)) / (size * self.presentations)

    def chance(self, size: int) -> float:
        """Error of guessing among the labels of an episode of ``size`` characters."""
        return 1 - 1 / size

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        """Training episodes of U(min_size, max_size) characters, or up to ``level``; one number for the
        minibatch."""
        low, high = self.min_size, self.max_size
        if level is not None:
            low, high = max(1, math.ceil(self.min_share * level)), level
        if not low <= high <= self.labels:
            raise ValueError(f"level must be from 1 to labels ({self.labels}), got {level}")
        size = int(torch.randint(low, high + 1, (), generator=generator))
        pool = min(self.labels, math.ceil(self.pool * high)) if self.pool else self.labels
        return self.sample_size(batch_size, generator, size, pool=pool)

    def sample_size(
        self, batch_size: int, generator: torch.Generator, size: int, split: str = "train", pool: int | None = None
    ) -> Batch:
        """Episodes of exactly ``size`` characters of a split, with labels from the first ``pool`` (all)."""
        pool = self.labels if pool is None else pool
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 1 <= size <= self.labels:
            raise ValueError(f"size must be from 1 to labels ({self.labels}), got {size}")
        if not size <= pool <= self.labels:
            raise ValueError(f"pool must be from size ({size}) to labels ({self.labels}), got {pool}")
        character, quarter = self._classes(batch_size, generator, size, split)  # (B, c)
        label = torch.rand(batch_size, pool, generator=generator).argsort(-1)[:, :size]
        drawing = torch.rand(batch_size, size, DRAWINGS, generator=generator).argsort(-1)
        # Slots of the same character lie side by side; a random order of the slots is the episode.
        steps = size * self.presentations
        shown = torch.rand(batch_size, steps, generator=generator).argsort(-1) // self.presentations  # (B, T)
        number = torch.empty_like(shown)
        counted = torch.arange(self.presentations).repeat(size).expand_as(shown)
        number.scatter_(1, shown.argsort(dim=-1, stable=True), counted)
        element = torch.arange(batch_size).unsqueeze(1)
        targets = label[element, shown]
        picked = character[element, shown] * DRAWINGS + drawing[element, shown, number]

        inputs = torch.zeros(steps, batch_size, self.input_size)
        pixels = self.image_size**2
        quarters = quarter[element, shown].T.reshape(-1)
        self._draw(picked.T.reshape(-1), quarters, generator, inputs.view(-1, self.input_size)[:, :pixels])
        targets = targets.T.contiguous()
        inputs[1:, :, pixels:].scatter_(2, targets[:-1].unsqueeze(-1), self.scale)
        mask = torch.ones(steps, batch_size, dtype=torch.bool)
        info = {"presentation": number.T.contiguous(), "character": character[element, shown].T, "pool": pool}
        return Batch(inputs, targets, mask, level=size, info=info, answers=slice(0, steps))

    def evaluation_batches(
        self, split: str, batch_size: int, size: int | None = None, episodes: int | None = None
    ) -> Iterator[Batch]:
        """The same episodes each time: ``evaluation_episodes`` of ``evaluation_size`` characters of
        ``split``."""
        size = self.evaluation_size if size is None else size
        episodes = self.evaluation_episodes if episodes is None else episodes
        order = {"train": 0, "validation": 1, "test": 2}
        self.characters(split)
        generator = torch.Generator().manual_seed(1_000_003 * size + order[split])
        for start in range(0, episodes, batch_size):
            yield self.sample_size(min(batch_size, episodes - start), generator, size, split)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross entropy over all steps, in nats, among the labels that the episodes could have used."""
        return F.cross_entropy(outputs[..., : batch.info["pool"]].flatten(0, 1), batch.targets.flatten())

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """Share of wrong answers, over all steps and by presentation number."""
        table = self.table()
        table.add(outputs, batch)
        return table.summary()

    def table(self) -> OmniglotTable:
        return OmniglotTable(self.presentations)

    @torch.no_grad()
    def evaluate(
        self,
        model: torch.nn.Module,
        split: str = "test",
        batch_size: int = 8,
        size: int | None = None,
        episodes: int | None = None,
        device: torch.device | str = "cpu",
    ) -> OmniglotTable:
        """Errors of ``model`` over the evaluation episodes of ``size`` characters."""
        table = self.table()
        for batch in self.evaluation_batches(split, batch_size, size, episodes):
            batch = batch.to(device)
            table.add(model(batch.inputs)[0], batch)
        return table

    def _classes(self, batch_size: int, generator: torch.Generator, size: int, split: str) -> tuple[Tensor, Tensor]:
        """(B, c) characters and their quarter turns, no pair twice in an episode."""
        pool = torch.from_numpy(self.characters(split))
        turns = 4 if self.augmentation else 1
        rounds = -(-size // len(pool))
        if rounds > turns:
            raise ValueError(f"size must be at most {len(pool) * turns} for the {split} characters, got {size}")
        # A round takes every character at most once: orientations are reused only when the pool is used up.
        ranks = torch.rand(batch_size * rounds, len(pool), generator=generator).argsort(-1)
        ranks = ranks.view(batch_size, -1)[:, :size]
        first_turn = torch.randint(turns, (batch_size, len(pool)), generator=generator)
        round_number = torch.arange(size) // len(pool)
        quarter = (first_turn.gather(1, ranks) + round_number) % turns
        return pool[ranks], quarter

    def _draw(self, picked: Tensor, quarters: Tensor, generator: torch.Generator, out: Tensor) -> None:
        """Write the drawings with these numbers, warped and in [0, 1] or normalised, to the rows of ``out``
        (n, pixels)."""
        changes = (self.augmentation or Augmentation(0, 0, 0)).draw(len(picked), generator)
        for start in range(0, len(picked), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            self._warp(picked[chunk], quarters[chunk].float(), changes[chunk], out[chunk])
        if self._moments is not None:
            out.sub_(self._mean).div_(self._deviation)

    def _warp(self, picked: Tensor, quarters: Tensor, changes: Tensor, out: Tensor) -> None:
        moments = (self._moments[0][picked], self._moments[1][picked]) if self._moments is not None else None
        source = self._images.flatten(0, 1)[picked].float()
        torch.div(Augmentation.warp(source, quarters, changes, self.image_size, moments).flatten(1), 255, out=out)

    def _pixel_statistics(self) -> tuple[Tensor, float]:
        """Mean image and the standard deviation around it, of one drawing of each training character turned all
        four ways."""
        picked = torch.from_numpy(self.characters("train")).repeat(4) * DRAWINGS
        quarters = torch.arange(4.0).repeat_interleave(len(picked) // 4)
        images = torch.empty(len(picked), self.image_size**2)
        self._warp(picked, quarters, torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0]).expand(len(picked), 5), images)
        mean = images.mean(0)
        return mean, max(float((images - mean).square().mean().sqrt()), 1e-6)
