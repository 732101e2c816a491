"""Multi-query associative recall (MQAR; Arora et al. 2023), generated as the authors' repository zoology does.

A sequence of `length` tokens shows n pairs, a key and then its value, and later each of the keys once more; the step
of such a query is scored, and its answer is the key's value:

    key  value  key  value   .    .   query   .    .    .   query   .
     2     8     4     7     0    0     4     0    0    0     2     0
     -     -     -     -     -    -     7     -    -    -     8     -

* Of V tokens 0 is the blank, 1 to V/2 - 1 are keys and V/2 to V - 1 are values. Keys of a sequence are all different,
  values as well. All other tokens are blanks.
* What follows the pairs is cut into slots of two tokens. Each query takes the first token of a slot of its own, slot i
  (from 1) drawn with probability ~ i^(POWER - 1) without replacement: most queries come soon, as words return in text.

A size is a number of pairs, 4 tokens for each of them and 64 at least; `slices` are pairs of (length, pairs).
`inputs` and `targets` (T, B) are tokens, so the task is for a model with an embedding, in a loop of one's own
(`examples/transformer_memory.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.lab.argument_types import require
from sparsam.lab.tasks.task import Batch, CheckedTask

# (tokens, pairs) of zoology's training and test sets.
TRAINED = ((64, 4), (128, 8), (256, 16), (256, 32), (256, 64))
TESTED = ((64, 4), (64, 8), (64, 16), (128, 32), (256, 64), (512, 128), (1024, 256))
POWER = 0.01


class Mqar(CheckedTask):
    """A minibatch is drawn from one of `slices`; at level h it has U(1, h) pairs.

    Its loss is in nats per answer, its error the share of queries answered wrongly. A model may score all steps
    (T, B, V), or the asked ones alone (M, V) in the order of `outputs[mask]`: most of its work with many tokens.

    Args:
        slices: None for those of zoology's training set that the vocabulary has keys for.
    """

    name = "mqar"

    def __init__(self, vocabulary: int = 8192, slices: Sequence[Sequence[int]] | None = None) -> None:
        even = vocabulary >= 4 and not vocabulary % 2
        require(even, "vocabulary", "an even number of at least 4 tokens", vocabulary)
        if slices is None:
            slices = [part for part in TRAINED if part[1] < vocabulary // 2] or [(64, vocabulary // 2 - 1)]
        require(bool(slices), "slices", "at least one (length, pairs)", "none")
        self.vocabulary = self.input_size = self.output_size = vocabulary
        self.slices = tuple((int(length), int(pairs)) for length, pairs in slices)
        for length, pairs in self.slices:
            self._check_slice(length, pairs)

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        if level is not None:
            pairs = int(torch.randint(1, level + 1, (), generator=generator))
            return self.sample_size(batch_size, generator, pairs)
        chosen = int(torch.randint(len(self.slices), (), generator=generator))
        return self.sample_slice(batch_size, generator, *self.slices[chosen])

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        """A minibatch of exactly `size` pairs, in the shortest sequence that has room for them (64 at least)."""
        return self.sample_slice(batch_size, generator, max(64, 4 * size), size)

    def sample_slice(self, batch_size: int, generator: torch.Generator, length: int, pairs: int) -> Batch:
        """A minibatch of `pairs` pairs in `length` tokens."""
        self._check_slice(length, pairs)
        half, context = self.vocabulary // 2, 2 * pairs
        keys = _different(batch_size, half - 1, pairs, generator) + 1
        values = _different(batch_size, half, pairs, generator) + half
        inputs = torch.zeros(batch_size, length, dtype=torch.int64)
        inputs[:, 0:context:2] = keys
        inputs[:, 1:context:2] = values
        slots = torch.arange(1, (length - context) // 2 + 1, dtype=torch.float64)
        # Slots in the order of log p + Gumbel noise are slots drawn one after the other without replacement.
        noise = torch.empty(batch_size, len(slots), dtype=torch.float64).exponential_(generator=generator).log()
        order = ((POWER - 1) * slots.log() - noise).topk(pairs, dim=1).indices
        asked = context + 2 * order
        inputs.scatter_(1, asked, keys)
        targets = torch.zeros_like(inputs).scatter_(1, asked, values)
        mask = torch.zeros_like(inputs, dtype=torch.bool).scatter_(1, asked, True)
        return Batch(inputs.t().contiguous(), targets.t().contiguous(), mask.t().contiguous(), level=pairs)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(self._scores(outputs, batch), batch.targets[batch.mask])

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        wrong = self._scores(outputs, batch).argmax(-1) != batch.targets[batch.mask]
        return {"error_rate": float(wrong.float().mean())}

    def chance(self, size: int) -> float:
        """Error of a guess among all values."""
        return 1 - 2 / self.vocabulary

    def _scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """(M, V) of the scored steps."""
        self.check_outputs(outputs)
        every, asked = (*batch.mask.shape, self.vocabulary), (int(batch.mask.sum()), self.vocabulary)
        if outputs.shape not in (every, asked):
            raise ValueError(f"outputs: expected shape {every}, or {asked}, got {tuple(outputs.shape)}")
        return outputs[batch.mask] if outputs.dim() == 3 else outputs

    def _check_slice(self, length: int, pairs: int) -> None:
        fits, keys = pairs >= 1 and not length % 2 and length >= 4 * pairs, self.vocabulary // 2 - 1
        wanted = "an even length of at least 4 tokens for each of at least 1 pairs"
        require(fits, "slices", wanted, f"length {length} and {pairs} pairs")
        require(pairs <= keys, "pairs", f"at most the {keys} keys of a vocabulary of {self.vocabulary}", pairs)


def _different(rows: int, among: int, count: int, generator: torch.Generator) -> Tensor:
    """(rows, count) numbers of 0..among - 1, all different within a row, in random order."""
    if among < 16 * count:
        return torch.rand(rows, among, generator=generator).topk(count, dim=1).indices
    # Few of many: draw, and draw again what was there before, until nothing was.
    drawn = torch.randint(among, (rows, count), generator=generator)
    while True:
        ordered, place = drawn.sort(dim=1, stable=True)
        repeated = torch.zeros_like(drawn, dtype=torch.bool)
        repeated.scatter_(1, place[:, 1:], ordered[:, 1:] == ordered[:, :-1])
        if not repeated.any():
            return drawn
        drawn[repeated] = torch.randint(among, (int(repeated.sum()),), generator=generator)
