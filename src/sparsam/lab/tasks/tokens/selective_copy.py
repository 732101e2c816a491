"""Selective copying (Gu and Dao 2023, section 4.1.1): the tokens that matter, among blanks, in order.

`items` data tokens stand in random places of a sequence of blanks; then a marker is shown once for each of them, and
the data tokens are the answers in the order in which they came:

    0  5  0  0  2  0  9  0  [V-1] [V-1] [V-1]
    -  -  -  -  -  -  -  -    5     2     9

Of V = 16 tokens 0 is the blank, V - 1 the marker, the others are data. The size is the number of tokens before the
first marker (256 by default). With `min_items` a minibatch has fewer items by chance: a model that can tell the first
of two from the second soon tells more of them apart. In long sequences all gaps are long, in 256 tokens those between
16 items are not: a share `clustered` of the minibatches has its items in a part of the sequence, the rest is one gap.
"""

from __future__ import annotations

import torch

from sparsam import checks
from sparsam.lab.tasks.task import Batch, register
from sparsam.lab.tasks.tokens.task import TokenTask


@register
class SelectiveCopy(TokenTask):
    """`min_length` to `max_length` tokens before the markers, or at level h `items` to h.

    `min_items`: minibatches that are drawn without a size have `min_items` to `items` items; None for `items`.
    `clustered`: how many of them have their items in a part of the sequence, from 0 to 1.
    """

    name = "selective_copy"

    def __init__(
        self,
        vocabulary: int = 16,
        items: int = 16,
        min_length: int = 256,
        max_length: int = 256,
        min_items: int | None = None,
        clustered: float = 0.0,
    ) -> None:
        if vocabulary < 3:
            raise ValueError(f"vocabulary: expected at least 3 tokens, got {vocabulary}")
        if items < 1:
            raise ValueError(f"items: expected at least 1, got {items}")
        if not items <= min_length <= max_length:
            raise ValueError(
                f"min_length: expected items <= min_length <= max_length, got {items}, {min_length} and {max_length}"
            )
        if min_items is not None and not 1 <= min_items <= items:
            raise ValueError(f"min_items: expected 1 <= min_items <= items = {items}, got {min_items}")
        self.clustered = checks.number_in("clustered", clustered, 0.0, 1.0)
        self.vocabulary, self.items, self.min_items = vocabulary, items, items if min_items is None else min_items
        self.min_length, self.max_length = min_length, max_length

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        low, high = (self.min_length, self.max_length) if level is None else (self.items, level)
        size = self.draw_between(low, high, generator)
        items = self.items if self.min_items == self.items else self.draw_between(self.min_items, self.items, generator)
        first, last = 0, size
        if self.clustered and float(torch.rand((), generator=generator)) < self.clustered:
            span = self.draw_between(items, size, generator)
            first = self.draw_between(0, size - span, generator)
            last = first + span
        return self._sample(batch_size, generator, size, items, first, last)

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        """A minibatch of `size` tokens and `items` markers a sequence."""
        return self._sample(batch_size, generator, size, self.items, 0, size)

    def _sample(
        self, batch_size: int, generator: torch.Generator, size: int, items: int, first: int, last: int
    ) -> Batch:
        """`size` tokens and `items` markers; the items stand from token `first` to before token `last`."""
        self.check_batch_size(batch_size)
        if size < items:
            raise ValueError(f"size: expected room for {items} items, got {size}")
        data = torch.randint(1, self.vocabulary - 1, (items, batch_size), generator=generator)
        places = torch.rand(last - first, batch_size, generator=generator).topk(items, dim=0).indices
        places = places.sort(0).values + first
        inputs = torch.zeros(size + items, batch_size, dtype=torch.int64)
        inputs.scatter_(0, places, data)
        inputs[size:] = self.vocabulary - 1
        targets = torch.zeros_like(inputs)
        targets[size:] = data
        mask = torch.zeros_like(inputs, dtype=torch.bool)
        mask[size:] = True
        return Batch(inputs, targets, mask, level=size, answers=slice(size, None))

    def chance(self, size: int) -> float:
        return 1 - 1 / (self.vocabulary - 2)
