"""Copy: a sequence of random bits, a delimiter, then the same sequence again.

Graves et al. 2014, section 4.1; SAM paper, section 4.2 (lengths 1 to 20) and 4.3 (1 to the curriculum's level).

For a length L the input has T = 2L + 1 steps of `bits + 1` channels: L items of `bits` random bits, one
step with only the delimiter channel on, L blank steps in which the items are answered in order.
"""

from __future__ import annotations

import torch

from sparsam.lab.tasks.task import Batch, BitTask, register


@register
class Copy(BitTask):
    """Sequences of `min_size` to `max_size` items (or 1 to the level) of `bits` random bits."""

    name = "copy"

    def __init__(self, bits: int = 6, min_size: int = 1, max_size: int = 20) -> None:
        self.check_sizes(bits, min_size, max_size)
        self.bits = bits
        self.min_size, self.max_size = min_size, max_size
        self.input_size = bits + 1
        self.output_size = bits

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        steps = 2 * size + 1
        answers = slice(size + 1, steps)
        inputs = torch.zeros(steps, batch_size, self.input_size)
        items = inputs[:size, :, : self.bits].random_(0, 2, generator=generator)
        inputs[size, :, self.bits] = 1
        targets = torch.zeros(steps, batch_size, self.bits)
        targets[answers] = items
        return Batch(inputs, targets, self.mask(steps, answers, batch_size), level=size, answers=answers)

    def answer_steps(self, size: int) -> int:
        return size
