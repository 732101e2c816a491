"""Random numbers of a run, all derived from its seed.

The minibatch of (seed, rank, step) is the same whenever it is drawn: nothing has to be remembered between
minibatches, which makes resuming exact by construction, alone and in parallel.
"""

from __future__ import annotations

import torch

_MASK = (1 << 64) - 1


def mix(*numbers: int) -> int:
    """A well-spread 63-bit number from a few integers (splitmix64, one round per number)."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ number) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 31) + 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ state >> 30) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state >> 1


class MinibatchSeeds:
    """One generator, set to the minibatch at hand."""

    TRAIN, EVALUATE = 0, 1

    def __init__(self, seed: int, rank: int = 0) -> None:
        self._seed, self._rank = seed, rank
        self._generator = torch.Generator()

    def at(self, step: int, purpose: int = TRAIN) -> torch.Generator:
        return self._generator.manual_seed(mix(self._seed, purpose, self._rank, step))
