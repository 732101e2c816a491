"""Induction heads (Olsson et al. 2022; Gu and Dao 2023, section 4.1.2): what followed the special token last time?

Random tokens of a vocabulary of 16. The last of them, V - 1, is special and stands in two places: somewhere inside,
and at the end, where the token that followed it is the answer:

    3  7  9  [V-1]  5  1  ...  2  [V-1]
    -  -  -    -    -  -       -    5

The size is the length of the sequence (256 by default; the Mamba paper tests up to a million).
"""

from __future__ import annotations

import torch

from sparsam.lab.tasks.task import Batch, register
from sparsam.lab.tasks.tokens.task import TokenTask


@register
class Induction(TokenTask):
    """Sequences of `min_length` to `max_length` tokens, or at level h of 3 to h; all of a minibatch alike."""

    name = "induction"

    def __init__(self, vocabulary: int = 16, min_length: int = 256, max_length: int = 256) -> None:
        if vocabulary < 3:
            raise ValueError(f"vocabulary: expected at least 3 tokens, got {vocabulary}")
        if not 3 <= min_length <= max_length:
            raise ValueError(f"min_length: expected 3 <= min_length <= max_length, got {min_length} and {max_length}")
        self.vocabulary, self.min_length, self.max_length = vocabulary, min_length, max_length

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        low, high = (self.min_length, self.max_length) if level is None else (3, level)
        return self.sample_size(batch_size, generator, self.draw_between(low, high, generator))

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        """A minibatch of `size` tokens a sequence."""
        self.check_batch_size(batch_size)
        if size < 3:
            raise ValueError(f"size: expected at least 3 tokens, got {size}")
        special = self.vocabulary - 1
        inputs = torch.randint(special, (size, batch_size), generator=generator)
        place = torch.randint(size - 2, (1, batch_size), generator=generator)
        answer = inputs.gather(0, place + 1)
        inputs.scatter_(0, place, special)
        inputs[-1] = special
        targets = torch.zeros_like(inputs)
        targets[-1] = answer
        mask = torch.zeros_like(inputs, dtype=torch.bool)
        mask[-1] = True
        return Batch(inputs, targets, mask, level=size)

    def chance(self, size: int) -> float:
        return 1 - 1 / (self.vocabulary - 1)
