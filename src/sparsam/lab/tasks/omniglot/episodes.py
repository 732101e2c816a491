"""Omniglot: one-shot recognition of hand-written characters (SAM paper, section 4.5; Santoro et al. 2016).

An episode shows c characters `presentations` times each (10), in random order: T = 10 c steps. Step t sees

    x_t = [image_t, one-hot label of step t - 1]        (no label at t = 0)

and the right answer is the label of image t. Labels are drawn anew in every episode, c different ones of
`labels`, so nothing about them can be learned but what the episode says. The width of the one-hot labels is
`labels` whatever c is: a model trained on few characters can be tested on many.

A character is turned by a random multiple of 90 degrees for the whole episode, and every presentation is another of its
20 drawings, turned a little, stretched and shifted (Santoro et al.: up to pi/16 and 10 of 105 pixels). An episode with
more characters than its split holds uses some of them in two or more orientations, as different characters.

`omniglot_pixels` puts a convolutional network before the model.

The loss is the mean cross entropy over all steps. The first presentation of a character can only be guessed,
so a perfect learner still has a loss of about log(labels) / presentations (`Omniglot.floor`) and an
error of about 1 / presentations; errors are therefore reported by presentation number as well.

Splits: test characters are those of `images_evaluation` (659), validation and training characters share
those of `images_background` (164 and 800 of 964).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.lab.argument_types import require
from sparsam.lab.data.omniglot import DRAWINGS, load_images
from sparsam.lab.tasks.omniglot.drawings import Augmentation, Drawings, draw_variety
from sparsam.lab.tasks.task import Batch, register

__all__ = ["Augmentation", "Omniglot", "OmniglotTable"]


class OmniglotTable:
    """Wrong answers by presentation number, added up over batches, and each episode's share of them."""

    def __init__(self, presentations: int = 10) -> None:
        self.asked = np.zeros(presentations, np.int64)
        self.wrong = np.zeros(presentations, np.int64)
        self.episodes: list[float] = []

    def add(self, outputs: Tensor, batch: Batch) -> None:
        """Take in a batch and what a model answered to it."""
        wrong = (outputs.detach().argmax(-1) != batch.targets).cpu().numpy()
        number = batch.info["presentation"].cpu().numpy()
        self.asked += np.bincount(number.ravel(), minlength=len(self.asked))
        self.wrong += np.bincount(number[wrong], minlength=len(self.asked))
        self.episodes += wrong.mean(0).tolist()

    @property
    def errors(self) -> list[float]:
        """Error at the 1st, 2nd, ... presentation."""
        return (self.wrong / np.maximum(self.asked, 1)).tolist()

    def measured(self) -> dict[str, Any]:
        """What a record keeps: the error, how far it is from episode to episode, and by presentation."""
        spread = round(float(np.std(self.episodes)), 6)
        error = self.summary()["error_rate"]
        return {"error": error, "episodes": len(self.episodes), "deviation": spread, "by_presentation": self.errors}

    def summary(self) -> dict[str, float]:
        """Headline first: the error over all steps, then by presentation number."""
        each = {f"presentation_{number}": error for number, error in enumerate(self.errors, start=1)}
        return {"error_rate": float(self.wrong.sum() / max(1, self.asked.sum())), **each}


@register
class Omniglot:
    """Episodes of hand-written characters.

    Args:
        root: where the data is; see `sparsam.lab.data.locate`.
        labels: width of the one-hot labels, the largest number of characters in an episode.
        min_size, max_size: characters in a training episode, U(min_size, max_size), when no level is given.
        presentations: how often each character is shown, at most 20.
        image_size: side of the images that the model sees.
        scale: the value that stands for one in the one-hot labels of the input, one number beside hundreds of pixels:
            with 1 a model needs thousands of minibatches to hear it at all.
        pool: labels of training episodes at level h come from the first `pool` times h, and only their outputs enter
            the loss, as if the output layer grew with the level; 0: always from all of them. With all 500 from the
            start each one is too rare for the model to learn what to do with it.
        pool_below: ... but from all of them at this level and above. A model that names tens of characters learns the
            labels it has not met within hundreds of minibatches.
        min_share: training episodes at level h have U(min_share h, h) characters, at least one; 0: U(1, h). Small
            episodes teach the habit of guessing among the labels seen so far, which keeps the memory from being used.
        variety: show the characters of training episodes as kinds that nobody drew: each one, in all its drawings,
            mirrored or not and bent by quadratic and cubic terms with factors from N(0, variety^2), anew in every
            episode; 0: as they were drawn. 800 characters are soon known by heart.
        device: where training episodes are drawn; on a GPU in milliseconds, from a generator there that is seeded by
            the one that is given. Evaluation episodes are always drawn on the CPU, so that they are the same.
        validation: characters held out of training for choosing runs.
        seed: which ones they are.
        augment: turn, stretch and shift; False shows the drawings as they are (in every split).
        evaluation_size: characters in the episodes of `evaluation_batches`.
        evaluation_episodes: how many of them there are.
        verify: compare the images with the official ones.
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
        pool: float = 0.0,
        pool_below: int | None = None,
        min_share: float = 0.0,
        variety: float = 0.0,
        device: str = "cpu",
        validation: int = 164,
        seed: int = 0,
        augment: bool = True,
        evaluation_size: int = 100,
        evaluation_episodes: int = 32,
        verify: bool = True,
    ) -> None:
        sizes = f"{min_size}, {max_size} and {labels}"
        require(1 <= min_size <= max_size <= labels, "min_size", "1 <= min_size <= max_size <= labels", sizes)
        require(1 <= evaluation_size <= labels, "evaluation_size", f"1 to labels ({labels})", evaluation_size)
        require(1 <= presentations <= DRAWINGS, "presentations", f"1 to {DRAWINGS}", presentations)
        require(image_size >= 1, "image_size", "at least 1", image_size)
        require(scale > 0, "scale", "a positive number", scale)
        require(pool == 0 or pool >= 1, "pool", "0 (all labels) or at least 1", pool)
        require(0 <= min_share <= 1, "min_share", "0 to 1", min_share)
        require(variety >= 0, "variety", "0 or more", variety)
        self.labels, self.presentations, self.image_size = labels, presentations, image_size
        self.scale, self.pool, self.pool_below = scale, pool, pool_below
        self.min_share, self.variety = min_share, variety
        self.min_size, self.max_size = min_size, max_size
        self.evaluation_size, self.evaluation_episodes = evaluation_size, evaluation_episodes
        self.device = torch.device(device)
        self.augmentation = Augmentation() if augment else None
        data = load_images(root, verify=verify)
        self.fingerprint = data.key
        background, test = np.flatnonzero(~data.evaluation), np.flatnonzero(data.evaluation)
        require(0 < validation < len(background), "validation", f"1 to {len(background) - 1} characters", validation)
        shuffled = np.random.default_rng(seed).permutation(background)
        self._splits = {
            "train": np.sort(shuffled[validation:]),
            "validation": np.sort(shuffled[:validation]),
            "test": test,
        }
        images = torch.from_numpy(data.images).flatten(0, 1)
        cpu = Drawings(images, image_size)
        self._drawings = {"cpu": cpu}
        if self.device.type != "cpu":
            self._drawings[self.device.type] = cpu.to(self.device)
        self.shown_size = self.input_size = cpu.width + labels  # what an episode shows, what a model sees
        self.output_size = labels

    def characters(self, split: str) -> np.ndarray:
        """Numbers of the characters of a split; no character is in two."""
        require(split in self._splits, "split", "'train', 'validation' or 'test'", repr(split))
        return self._splits[split]

    def floor(self, size: int, pool: int | None = None) -> float:
        """Loss of a learner that guesses first presentations among the labels left and knows all others."""
        labels = self.labels if pool is None else pool
        return sum(math.log(labels - seen) for seen in range(size)) / (size * self.presentations)

    def chance(self, size: int) -> float:
        """Error of guessing among the labels of an episode of `size` characters."""
        return 1 - 1 / size

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        """Training episodes of U(min_size, max_size) characters, or up to `level`; one number for the minibatch."""
        low, high = self.min_size, self.max_size
        if level is not None:
            low, high = max(1, math.ceil(self.min_share * level)), level
        if not low <= high <= self.labels:
            raise ValueError(f"level: expected 1 to labels ({self.labels}), got {level}")
        size = int(torch.randint(low, high + 1, (), generator=generator))
        pooled = self.pool and (self.pool_below is None or high < self.pool_below)
        pool = min(self.labels, math.ceil(self.pool * high)) if pooled else self.labels
        if self.device.type != "cpu":
            seed = int(torch.randint(2**62, (), generator=generator))
            generator = torch.Generator(self.device).manual_seed(seed)
        return self.sample_size(batch_size, generator, size, pool=pool, variety=self.variety)

    def sample_size(
        self,
        batch_size: int,
        generator: torch.Generator,
        size: int,
        split: str = "train",
        pool: int | None = None,
        variety: float = 0.0,
    ) -> Batch:
        """Episodes of exactly `size` characters of a split, with labels from the first `pool` (all), on the
        generator's device."""
        pool = self.labels if pool is None else pool
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        if not 1 <= size <= self.labels:
            raise ValueError(f"size: expected 1 to labels ({self.labels}), got {size}")
        if not size <= pool <= self.labels:
            raise ValueError(f"pool: expected size ({size}) to labels ({self.labels}), got {pool}")
        device = generator.device
        character, quarter = self._classes(batch_size, generator, size, split)  # (B, c)
        label = _random(batch_size, pool, generator=generator).argsort(-1)[:, :size]
        drawing = _random(batch_size, size, DRAWINGS, generator=generator).argsort(-1)
        # Slots of the same character lie side by side; a random order of the slots is the episode.
        steps = size * self.presentations
        shown = _random(batch_size, steps, generator=generator).argsort(-1) // self.presentations  # (B, T)
        number = torch.empty_like(shown)
        counted = torch.arange(self.presentations, device=device).repeat(size).expand_as(shown)
        number.scatter_(1, shown.argsort(dim=-1, stable=True), counted)
        element = torch.arange(batch_size, device=device).unsqueeze(1)
        targets = label[element, shown].T.contiguous()
        picked = (character[element, shown] * DRAWINGS + drawing[element, shown, number]).T.reshape(-1)
        quarters = quarter[element, shown].T.reshape(-1).float()
        changes = (self.augmentation or Augmentation(0, 0, 0)).draw(len(picked), generator)
        kinds = None
        if variety:
            which = (element * size + shown).T.reshape(-1)
            mirrored, bend = draw_variety(batch_size * size, variety, generator)
            kinds = (mirrored[which], bend[which])

        drawings = self._drawings[device.type]
        inputs = torch.zeros(steps, batch_size, self.shown_size, device=device)
        drawings.draw(picked, quarters, changes, inputs.view(-1, self.shown_size)[:, : drawings.width], kinds)
        inputs[1:, :, drawings.width :].scatter_(2, targets[:-1].unsqueeze(-1), self.scale)
        mask = torch.ones(steps, batch_size, dtype=torch.bool, device=device)
        info = {"presentation": number.T.contiguous(), "character": character[element, shown].T, "pool": pool}
        return Batch(inputs, targets, mask, level=size, info=info, answers=slice(0, steps))

    def evaluation_batches(
        self, split: str, batch_size: int, size: int | None = None, episodes: int | None = None
    ) -> Iterator[Batch]:
        """The same episodes each time: `evaluation_episodes` of `evaluation_size` characters of `split`."""
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
        """Errors of `model` over the evaluation episodes of `size` characters."""
        table = self.table()
        for batch in self.evaluation_batches(split, batch_size, size, episodes):
            batch = batch.to(device)
            table.add(model(batch.inputs)[0], batch)
        return table

    def _classes(self, batch_size: int, generator: torch.Generator, size: int, split: str) -> tuple[Tensor, Tensor]:
        """(B, c) characters and their quarter turns, no pair twice in an episode."""
        pool = torch.from_numpy(self.characters(split)).to(generator.device)
        turns = 4 if self.augmentation else 1
        rounds = -(-size // len(pool))
        if rounds > turns:
            raise ValueError(f"size: expected at most {len(pool) * turns} for the {split} characters, got {size}")
        # A round takes every character at most once: orientations are reused only when the pool is used up.
        ranks = _random(batch_size * rounds, len(pool), generator=generator).argsort(-1)
        ranks = ranks.view(batch_size, -1)[:, :size]
        first_turn = torch.randint(turns, (batch_size, len(pool)), generator=generator, device=generator.device)
        round_number = torch.arange(size, device=generator.device) // len(pool)
        quarter = (first_turn.gather(1, ranks) + round_number) % turns
        return pool[ranks], quarter


def _random(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.rand(*shape, generator=generator, device=generator.device)
