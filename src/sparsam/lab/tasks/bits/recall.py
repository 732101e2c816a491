"""Associative recall: pairs of a key and a value, then one of the keys again, and its value is the answer.

Graves et al. 2014, section 4.3 (items of three vectors of six bits: `bits=6, item_length=3`); SAM paper, sections 4.2
(3 to 6 pairs), 4.3 and supplementary figure on generalisation. Neither paper fixes the layout in time; there are two:

* in turn (`paired=False`): every key and every value is an item of `item_length` steps of `bits` random bits
  (one step by default). With n pairs the input has T = (2n + 2) * item_length steps of `bits + 3` channels; the last
  three say what an item is: key, value or cue. The last `item_length` steps are blank: there the answer is asked for.
* paired (`paired=True`): a pair is one step, the key's bits beside the value's. With n pairs the input has T = n + 1
  steps of `2 bits + 1` channels. The last step has the cue in the key's channels, nothing in the value's and the cue
  channel on: there the answer is asked for. This form is learnt in a fraction of the time, since the controller does
  not have to carry a key over to the step of its value.

`cues` different pairs are asked for one after the other (one by default; never more than there are pairs), each with
its cue and its answer; they are drawn uniformly. No other pair has a cued key (a key that happens to equal one gets a
bit flipped), so with one cue the answer is never ambiguous. Keys that are not asked for may repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.lab.argument_types import require
from sparsam.lab.tasks.task import Batch, BitTask, register


@register
class Recall(BitTask):
    """`min_size` to `max_size` pairs (3 to 6 by default, or 1 to the level).

    Args:
        bits: of a vector.
        item_length: vectors of a key, and of a value.
        paired: key and value in one step.
        cues: pairs that are asked for.
        near: share of the keys that are another key of the sequence with one bit flipped. Among a few random keys no
            two are alike, among thousands many are: for training with a few pairs what is to hold for many.
    """

    name = "recall"

    def __init__(
        self,
        bits: int = 8,
        item_length: int = 1,
        min_size: int = 3,
        max_size: int = 6,
        paired: bool = False,
        cues: int = 1,
        near: float = 0.0,
    ) -> None:
        self.check_sizes(bits, min_size, max_size)
        require(item_length >= 1, "item_length", "at least 1", item_length)
        require(not paired or item_length == 1, "item_length", "1 when pairs are one step (paired)", item_length)
        require(cues >= 1, "cues", "at least 1", cues)
        require(0 <= near <= 1, "near", "a share from 0 to 1", near)
        self.near = near
        self.bits = bits
        self.item_length = item_length
        self.paired = paired
        self.cues = cues
        self.min_size, self.max_size = min_size, max_size
        self.input_size = 2 * bits + 1 if paired else bits + 3
        self.output_size = bits

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        cues = min(self.cues, size)
        layout = self._paired if self.paired else self._in_turn
        inputs, keys, values, shown, times = layout(batch_size, generator, size, cues)
        if self.near:
            self._bring_near(keys, generator)
        if cues == 1:
            asked = torch.randint(size, (1, batch_size), generator=generator)
        else:
            asked = torch.rand(size, batch_size, generator=generator).argsort(0)[:cues]
        element = torch.arange(batch_size)
        cued = keys[asked, :, element]  # (cues, B, item_length, bits)
        self._make_unique(keys, cued, asked, generator)
        shown.copy_(cued.transpose(1, 2))
        steps = len(inputs)
        targets = torch.zeros(steps, batch_size, self.bits)
        targets[times] = values[asked, :, element].transpose(1, 2).flatten(0, 1)
        mask = self.mask(steps, times, batch_size)
        return Batch(inputs, targets, mask, level=size, answers=times if isinstance(times, slice) else None)

    def _in_turn(
        self, batch_size: int, generator: torch.Generator, size: int, cues: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, slice | Tensor]:
        """Inputs; views of their keys and values (n, item_length, B, bits) and of the cues; times of the answers."""
        length, bits = self.item_length, self.bits
        first = 2 * size * length
        inputs = torch.zeros(first + 2 * cues * length, batch_size, self.input_size)
        inputs[:first, :, :bits].random_(0, 2, generator=generator)
        pairs = inputs[:first].view(size, 2, length, batch_size, self.input_size)
        pairs[:, 0, :, :, bits] = 1
        pairs[:, 1, :, :, bits + 1] = 1
        asking = inputs[first:].view(cues, 2, length, batch_size, self.input_size)
        asking[:, 0, :, :, bits + 2] = 1
        times: slice | Tensor = slice(first + length, len(inputs), 1 if cues == 1 else 2)
        if cues > 1 and length > 1:
            times = torch.arange(first, len(inputs)).view(cues, 2, length)[:, 1].flatten()
        return inputs, pairs[:, 0, :, :, :bits], pairs[:, 1, :, :, :bits], asking[:, 0, :, :, :bits], times

    def _paired(
        self, batch_size: int, generator: torch.Generator, size: int, cues: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, slice | Tensor]:
        """The same of the paired layout, where a cue's step is its answer's."""
        bits, times = self.bits, slice(size, size + cues)
        inputs = torch.zeros(size + cues, batch_size, self.input_size)
        inputs[:size, :, : 2 * bits].random_(0, 2, generator=generator)
        inputs[times, :, 2 * bits] = 1
        pairs = inputs[:size].unsqueeze(1)
        return inputs, pairs[..., :bits], pairs[..., bits : 2 * bits], inputs[times, :, :bits].unsqueeze(1), times

    def _bring_near(self, keys: Tensor, generator: torch.Generator) -> None:
        """Make some of the keys (n, item_length, B, bits) after the first a copy of an earlier one but for one bit."""
        size, length, batch_size, bits = keys.shape
        chosen = torch.rand(size, batch_size, generator=generator) < self.near
        like = (torch.rand(size, batch_size, generator=generator) * torch.arange(size).unsqueeze(1)).long()
        step = torch.randint(length, (size, batch_size), generator=generator)
        bit = torch.randint(bits, (size, batch_size), generator=generator)
        for pair in range(1, size):  # one after the other: the key that is copied may be such a copy
            element = chosen[pair].nonzero().squeeze(1)
            keys[pair, :, element] = keys[like[pair, element], :, element].transpose(0, 1)
            place = (pair, step[pair, element], element, bit[pair, element])
            keys[place] = 1 - keys[place]

    def _make_unique(self, keys: Tensor, cued: Tensor, asked: Tensor, generator: torch.Generator) -> None:
        """Flip one bit of every key (n, item_length, B, bits) that equals a cued one without being it."""
        same = (keys.unsqueeze(1) == cued.transpose(1, 2)).all(-1).all(2)  # (n, cues, B)
        cues, batch_size = asked.shape
        same[asked, torch.arange(cues).unsqueeze(1), torch.arange(batch_size)] = False
        if same.any():
            pair, element = same.any(1).nonzero(as_tuple=True)
            step = torch.randint(self.item_length, pair.shape, generator=generator)
            bit = torch.randint(self.bits, pair.shape, generator=generator)
            keys[pair, step, element, bit] = 1 - keys[pair, step, element, bit]

    def answer_steps(self, size: int) -> int:
        return self.item_length * min(self.cues, size)
