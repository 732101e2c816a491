from __future__ import annotations

import pytest
import torch

from sparsam.lab.tasks.tokens.selective_copy import SelectiveCopy
from sparsam.lab.training.seeds import MinibatchSeeds

SEEDS = MinibatchSeeds(4)


@pytest.mark.parametrize(("items", "length"), [(1, 1), (4, 4), (16, 256), (3, 5_000)])
def test_the_data_tokens_are_asked_for_in_order(items: int, length: int) -> None:
    task = SelectiveCopy(items=items, min_length=items)
    batch = task.sample_size(6, SEEDS.at(0), length)
    assert batch.inputs.shape == (length + items, 6)
    assert (batch.inputs[length:] == 15).all() and batch.mask[length:].all() and not batch.mask[:length].any()
    for b in range(6):
        shown = batch.inputs[:length, b]
        data = shown[shown != 0]
        assert data.tolist() == batch.targets[length:, b].tolist() and data.min() >= 1 and data.max() <= 14


def test_places_lengths_and_seeds() -> None:
    task = SelectiveCopy(vocabulary=6, items=1, min_length=4, max_length=6)
    batch = task.sample_size(4_000, SEEDS.at(0), 4)
    assert torch.bincount((batch.inputs[:4] != 0).int().argmax(0), minlength=4).min() > 850
    assert torch.bincount(batch.targets[-1], minlength=5)[1:].min() > 850 and task.chance(4) == 0.75
    assert {task.sample(1, SEEDS.at(i)).inputs.shape[0] for i in range(40)} == {5, 6, 7}
    assert {task.sample(1, SEEDS.at(i), level=3).inputs.shape[0] for i in range(40)} == {2, 3, 4}
    assert task.sample(2, SEEDS.at(7)).inputs.equal(task.sample(2, MinibatchSeeds(4).at(7)).inputs)
    with pytest.raises(ValueError, match="min_length"):
        SelectiveCopy(items=20, min_length=10, max_length=30)
    with pytest.raises(ValueError, match="size"):
        SelectiveCopy().sample_size(1, SEEDS.at(0), 5)


def test_fewer_items_by_chance_in_training_and_all_of_them_at_a_size() -> None:
    task = SelectiveCopy(items=4, min_items=2, min_length=8, max_length=8)
    assert {task.sample(1, SEEDS.at(i)).inputs.shape[0] for i in range(40)} == {10, 11, 12}
    assert task.sample_size(1, SEEDS.at(0), 8).inputs.shape[0] == 12
    with pytest.raises(ValueError, match="min_items: expected 1 <= min_items <= items = 4, got 5"):
        SelectiveCopy(items=4, min_items=5)


def test_clustered_items_stand_in_a_part_of_the_sequence() -> None:
    task = SelectiveCopy(items=3, min_length=64, max_length=64, clustered=1.0)
    spans = []
    for i in range(50):
        batch = task.sample(8, SEEDS.at(i))
        shown = batch.inputs[:64] != 0
        assert (shown.sum(0) == 3).all()
        assert batch.inputs[:64].T[shown.T].view(8, 3).equal(batch.targets[64:].T)
        places = shown.any(1).nonzero().flatten()
        spans.append(int(places[-1] - places[0]))
    assert min(spans) < 16 and max(spans) > 48
    evenly = SelectiveCopy(items=3, min_length=64, max_length=64)
    assert evenly.sample_size(8, SEEDS.at(0), 64).inputs.equal(task.sample_size(8, SEEDS.at(0), 64).inputs)
    with pytest.raises(ValueError, match="clustered: expected a number in"):
        SelectiveCopy(clustered=1.5)
