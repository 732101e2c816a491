"""Associative recall: pairs of a key and a value, then one of the keys again, and its value is the answer.

Graves et al. 2014, section 4.3 (items of three vectors of six bits: ``bits=6, item_length=3``); SAM paper,
sections 4.2 (3 to 6 pairs), 4.3 and supplementary figure on generalisation.

Every key and every value is an item of ``item_length`` steps of ``bits`` random bits (one step by default).
With n pairs the input has T = (2n + 2) * item_length steps of ``bits + 3`` channels; the last three say
what an item is: key, value or cue. The last ``item_length`` steps are blank: there the value of the cued
key is answered.

The cued pair is drawn uniformly. No other pair has the cued key (a key that happens to equal it gets one bit
flipped), so the answer is never ambiguous. Keys that are not asked for may repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.tasks.task import Batch, BitTask


class Recall(BitTask):
    """``min_size`` to ``max_size`` pairs (3 to 6 by default, or 1 to the level)."""

    name = "recall"

    def __init__(self, bits: int = 8, item_length: int = 1, min_size: int = 3, max_size: int = 6) -> None:
        self.check_sizes(bits, min_size, max_size)
        if item_length < 1:
            raise ValueError(f"item_length must be at least 1, got {item_length}")
        self.bits = bits
        self.item_length = item_length
        self.min_size, self.max_size = min_size, max_size
        self.input_size = bits + 3
        self.output_size = bits

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        length, bits = self.item_length, self.bits
        cue = slice(2 * size * length, (2 * size + 1) * length)
        steps = (2 * size + 2) * length
        answers = slice(cue.stop, steps)

        inputs = torch.zeros(steps, batch_size, self.input_size)
        inputs[: cue.start, :, :bits].random_(0, 2, generator=generator)
        pairs = inputs[: cue.start].view(size, 2, length, batch_size, self.input_size)
        pairs[:, 0, :, :, bits] = 1
        pairs[:, 1, :, :, bits + 1] = 1
        inputs[cue, :, bits + 2] = 1

        asked = torch.randint(size, (batch_size,), generator=generator)
        element = torch.arange(batch_size)
        keys = pairs[:, 0, :, :, :bits]
        cued = keys[asked, :, element]  # (B, item_length, bits)
        self._make_unique(keys, cued, asked, generator)
        inputs[cue, :, :bits] = cued.transpose(0, 1)
        targets = torch.zeros(steps, batch_size, bits)
        targets[answers] = pairs[asked, 1, :, element, :bits].transpose(0, 1)
        return Batch(inputs, targets, self.mask(steps, answers, batch_size), level=size, answers=answers)

    def _make_unique(self, keys: Tensor, cued: Tensor, asked: Tensor, generator: torch.Generator) -> None:
        """Flip one bit of every key (n, item_length, B, bits) that equals the cued one without being it."""
        same = (keys == cued.transpose(0, 1)).all(-1).all(1)  # (n, B)
        same[asked, torch.arange(len(asked))] = False
        if same.any():
            pair, element = same.nonzero(as_tuple=True)
            step = torch.randint(self.item_length, pair.shape, generator=generator)
            bit = torch.randint(self.bits, pair.shape, generator=generator)
            keys[pair, step, element, bit] = 1 - keys[pair, step, element, bit]

    def answer_steps(self, size: int) -> int:
        return self.item_length
