"""Associative recall: pairs of a key and a value, then one of the keys again, and its value is the answer.

Graves et al. 2014, section 4.3 (items of three vectors of six bits: ``bits=6, item_length=3``); SAM paper, sections 4.2
(3 to 6 pairs), 4.3 and supplementary figure on generalisation. Neither paper fixes the layout in time; there are two:

* in turn (``paired=False``): every key and every value is an item of ``item_length`` steps of ``bits`` random bits
  (one step by default). With n pairs the input has T = (2n + 2) * item_length steps of ``bits + 3`` channels; the last
  three say what an item is: key, value or cue. The last ``item_length`` steps are blank: there the answer is asked for.
* paired (``paired=True``): a pair is one step, the key's bits beside the value's. With n pairs the input has T = n + 1
  steps of ``2 bits + 1`` channels. The last step has the cue in the key's channels, nothing in the value's and the cue
  channel on: there the answer is asked for. This form is learnt in a fraction of the time, since the controller does
  not have to carry a key over to the step of its value.

The cued pair is drawn uniformly. No other pair has the cued key (a key that happens to equal it gets one bit flipped),
so the answer is never ambiguous. Keys that are not asked for may repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.tasks.task import Batch, BitTask


class Recall(BitTask):
    """``min_size`` to ``max_size`` pairs (3 to 6 by default, or 1 to the level)."""

    name = "recall"

    def __init__(
        self, bits: int = 8, item_length: int = 1, min_size: int = 3, max_size: int = 6, paired: bool = False
    ) -> None:
        self.check_sizes(bits, min_size, max_size)
        if item_length < 1:
            raise ValueError(f"item_length must be at least 1, got {item_length}")
        if paired and item_length != 1:
            raise ValueError(f"item_length must be 1 when pairs are one step (paired), got {item_length}")
        self.bits = bits
        self.item_length = item_length
        self.paired = paired
        self.min_size, self.max_size = min_size, max_size
        self.input_size = 2 * bits + 1 if paired else bits + 3
        self.output_size = bits

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        asked = torch.randint(size, (batch_size,), generator=generator)
        layout = self._paired if self.paired else self._in_turn
        inputs, keys, values, cue, answers = layout(batch_size, generator, size)
        element = torch.arange(batch_size)
        cued = keys[asked, :, element]  # (B, item_length, bits)
        self._make_unique(keys, cued, asked, generator)
        cue.copy_(cued.transpose(0, 1))
        steps = len(inputs)
        targets = torch.zeros(steps, batch_size, self.bits)
        targets[answers] = values[asked, :, element].transpose(0, 1)
        return Batch(inputs, targets, self.mask(steps, answers, batch_size), level=size, answers=answers)

    def _in_turn(
        self, batch_size: int, generator: torch.Generator, size: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, slice]:
        """Inputs; views of their keys and values (n, item_length, B, bits) and cue (item_length, B, bits); answers."""
        length, bits = self.item_length, self.bits
        cue = slice(2 * size * length, (2 * size + 1) * length)
        inputs = torch.zeros((2 * size + 2) * length, batch_size, self.input_size)
        inputs[: cue.start, :, :bits].random_(0, 2, generator=generator)
        pairs = inputs[: cue.start].view(size, 2, length, batch_size, self.input_size)
        pairs[:, 0, :, :, bits] = 1
        pairs[:, 1, :, :, bits + 1] = 1
        inputs[cue, :, bits + 2] = 1
        keys, values = pairs[:, 0, :, :, :bits], pairs[:, 1, :, :, :bits]
        return inputs, keys, values, inputs[cue, :, :bits], slice(cue.stop, len(inputs))

    def _paired(
        self, batch_size: int, generator: torch.Generator, size: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, slice]:
        """The same of the paired layout, where the cue's step is the answer's."""
        bits, answers = self.bits, slice(size, size + 1)
        inputs = torch.zeros(size + 1, batch_size, self.input_size)
        inputs[:size, :, : 2 * bits].random_(0, 2, generator=generator)
        inputs[answers, :, 2 * bits] = 1
        pairs = inputs[:size].unsqueeze(1)
        return inputs, pairs[..., :bits], pairs[..., bits : 2 * bits], inputs[answers, :, :bits], answers

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
