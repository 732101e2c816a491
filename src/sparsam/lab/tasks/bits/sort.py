"""Priority sort: random keys with a priority each, answered in descending order of priority.

Graves et al. 2014, section 4.5; SAM paper, sections 4.2 (20 keys, the best 16) and 4.3.

For n keys the input has T = n + 1 + m steps of `bits + 2` channels, m = max(1, 4n/5): n keys of `bits`
random bits with a priority from U(-1, 1) in channel `bits`, one step with only the delimiter channel on,
m blank steps in which the m keys of highest priority are answered, the highest first.
"""

from __future__ import annotations

import torch

from sparsam.lab.tasks.task import Batch, BitTask, register


@register
class Sort(BitTask):
    """`min_size` to `max_size` keys (20 by default, or 1 to the level), the best four fifths in order."""

    name = "sort"

    def __init__(self, bits: int = 6, min_size: int = 20, max_size: int = 20) -> None:
        self.check_sizes(bits, min_size, max_size)
        self.bits = bits
        self.min_size, self.max_size = min_size, max_size
        self.input_size = bits + 2
        self.output_size = bits

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        best = self.answer_steps(size)
        steps = size + 1 + best
        answers = slice(size + 1, steps)
        inputs = torch.zeros(steps, batch_size, self.input_size)
        keys = inputs[:size, :, : self.bits].random_(0, 2, generator=generator)
        priorities = inputs[:size, :, self.bits].uniform_(-1, 1, generator=generator)
        inputs[size, :, self.bits + 1] = 1
        order = priorities.argsort(dim=0, descending=True, stable=True)[:best]
        targets = torch.zeros(steps, batch_size, self.bits)
        torch.gather(keys, 0, order.unsqueeze(-1).expand(-1, -1, self.bits), out=targets[answers])
        return Batch(inputs, targets, self.mask(steps, answers, batch_size), level=size, answers=answers)

    def answer_steps(self, size: int) -> int:
        return max(1, 4 * size // 5)
