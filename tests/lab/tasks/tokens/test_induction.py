from __future__ import annotations

import pytest
import torch

from sparsam.lab.tasks.tokens.induction import Induction
from sparsam.lab.training.seeds import MinibatchSeeds

SEEDS = MinibatchSeeds(4)


@pytest.mark.parametrize("length", [3, 4, 256, 5_000])
def test_the_answer_follows_the_special_token(length: int) -> None:
    batch = Induction().sample_size(8, SEEDS.at(0), length)
    assert batch.inputs.shape == (length, 8) and batch.mask[-1].all() and int(batch.mask.sum()) == 8
    for b in range(8):
        places = (batch.inputs[:, b] == 15).nonzero().flatten().tolist()
        assert len(places) == 2 and places[1] == length - 1 and places[0] < length - 2
        assert batch.inputs[places[0] + 1, b] == batch.targets[-1, b]


def test_places_answers_lengths_and_seeds() -> None:
    task = Induction(vocabulary=5, min_length=6, max_length=9)
    batch = task.sample_size(4_000, SEEDS.at(0), 6)
    assert torch.bincount((batch.inputs == 4).int().argmax(0), minlength=4).min() > 850  # all four places alike
    assert torch.bincount(batch.targets[-1], minlength=4).min() > 850 and task.chance(6) == 0.75
    assert {task.sample(1, SEEDS.at(i)).inputs.shape[0] for i in range(40)} == {6, 7, 8, 9}
    assert {task.sample(1, SEEDS.at(i), level=4).inputs.shape[0] for i in range(20)} == {3, 4}
    assert task.sample(2, SEEDS.at(7)).inputs.equal(task.sample(2, MinibatchSeeds(4).at(7)).inputs)
    with pytest.raises(ValueError, match="min_length"):
        Induction(min_length=2)
    with pytest.raises(ValueError, match="size"):
        task.sample_size(1, SEEDS.at(0), 2)
