"""Minibatches drawn ahead are the ones that would have been drawn."""

from __future__ import annotations

from dataclasses import dataclass

from sparsam.lab.training.prefetch import Prefetch
from sparsam.lab.training.seeds import MinibatchSeeds


@dataclass
class Drawn:
    """Stands for a batch: what it was drawn with, and where it went."""

    number: int
    level: int | None
    path: tuple = ()

    def pinned(self):
        return Drawn(self.number, self.level, (*self.path, "pinned"))

    def to(self, device, non_blocking):
        return Drawn(self.number, self.level, (*self.path, device, non_blocking))


class Numbers:
    def __init__(self):
        self.draws = 0

    def sample(self, batch_size, generator, level=None):
        self.draws += 1
        return Drawn(generator.initial_seed(), level)


def test_steps_come_as_if_drawn_in_turn():
    task, seeds = Numbers(), MinibatchSeeds(3)
    ahead = Prefetch(task, MinibatchSeeds(3), 8, "cuda")
    for step in range(5):
        batch = ahead.take(step, None)
        assert batch == Drawn(seeds.at(step).initial_seed(), None, ("pinned", "cuda", True))
    ahead.take(5, None)
    assert task.draws <= 7  # one too many at the most


def test_a_new_level_and_a_jump_are_drawn_again():
    seeds = MinibatchSeeds(3)
    ahead = Prefetch(Numbers(), MinibatchSeeds(3), 8, "cuda")
    assert ahead.take(0, 2).level == 2
    batch = ahead.take(1, 4)
    assert (batch.level, batch.number) == (4, seeds.at(1).initial_seed())
    assert ahead.take(9, 4).number == seeds.at(9).initial_seed()
