from __future__ import annotations

import pytest
import torch

from sparsam.lab.tasks import Task
from sparsam.lab.tasks.tokens.mqar import POWER, TESTED, TRAINED, Mqar, _different
from sparsam.lab.training.seeds import MinibatchSeeds

SIX = MinibatchSeeds(6)


@pytest.mark.parametrize(("length", "pairs"), [*TRAINED, *TESTED, (256, 4), (40, 1)])
def test_each_query_has_exactly_one_earlier_key_and_asks_for_its_value(length: int, pairs: int) -> None:
    batch = Mqar().sample_slice(3, SIX.at(0), length, pairs)
    assert batch.inputs.shape == batch.targets.shape == batch.mask.shape == (length, 3)
    assert (batch.mask.sum(0) == pairs).all()  # every key is asked for, all queries are scored
    for b in range(3):
        tokens, mask = batch.inputs[:, b], batch.mask[:, b]
        keys, values = tokens[0 : 2 * pairs : 2], tokens[1 : 2 * pairs : 2]
        assert len(keys.unique()) == pairs == len(values.unique())
        for time in mask.nonzero().flatten():
            assert time >= 2 * pairs and time % 2 == 0
            earlier = (tokens[:time] == tokens[time]).nonzero().flatten()
            assert len(earlier) == 1 and earlier % 2 == 0
            assert tokens[earlier + 1] == batch.targets[time, b]
        assert (tokens[2 * pairs :][~mask[2 * pairs :]] == 0).all()


def test_keys_and_values_are_separate_tokens_and_all_occur() -> None:
    task = Mqar(vocabulary=20, slices=[(16, 4)])
    batch = task.sample(500, SIX.at(0))
    assert batch.inputs[:8:2].unique().tolist() == list(range(1, 10))
    assert batch.inputs[1:8:2].unique().tolist() == list(range(10, 20))


def test_queries_come_soon_by_the_power_law() -> None:
    task = Mqar(slices=[(64, 1)])
    batch = task.sample(20_000, SIX.at(1))
    slot = (batch.mask.int().argmax(0) - 2) // 2 + 1
    weights = torch.arange(1, 32, dtype=torch.float64) ** (POWER - 1)
    found = torch.bincount(slot, minlength=32)[1:] / 20_000
    torch.testing.assert_close(found.double(), weights / weights.sum(), atol=0.012, rtol=0)


def test_of_two_queries_the_second_is_drawn_from_the_slots_that_are_left() -> None:
    batch = Mqar(vocabulary=64, slices=[(10, 2)]).sample(20_000, SIX.at(2))
    first_key = batch.inputs[0]
    asked = (batch.inputs[4:] == first_key).int().argmax(0) // 2  # slot of the first pair: the first draw
    weights = torch.tensor([1.0, 2.0, 3.0]) ** (POWER - 1)
    torch.testing.assert_close(torch.bincount(asked) / 20_000, weights / weights.sum(), atol=0.012, rtol=0)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    one, same, other = (Mqar().sample(4, MinibatchSeeds(seed).at(3)) for seed in (1, 1, 2))
    assert one.inputs.equal(same.inputs) and one.targets.equal(same.targets)
    assert one.inputs.shape != other.inputs.shape or not one.inputs.equal(other.inputs)


def test_slices_and_levels() -> None:
    task = Mqar()
    assert task.slices == TRAINED
    assert Mqar(vocabulary=64).slices == TRAINED[:3] and Mqar(vocabulary=6).slices == ((64, 2),)
    assert {task.sample(1, SIX.at(i)).inputs.shape[0] for i in range(30)} == {64, 128, 256}
    assert max(int(task.sample(1, SIX.at(i), level=20).mask.sum()) for i in range(60)) == 20
    assert task.sample_size(1, SIX.at(0), 300).inputs.shape == (1200, 1)


@pytest.mark.parametrize("among", [50, 400])  # drawn as a part of a permutation, and with rejection
def test_different_numbers_are_drawn_evenly_and_in_any_order(among: int) -> None:
    drawn = _different(8_000, among, 5, SIX.at(0))
    assert all(len(row.unique()) == 5 for row in drawn[:200]) and int(drawn.max()) == among - 1
    for place in (0, 4):
        counts = torch.bincount(drawn[:, place] * 10 // among, minlength=10)
        assert counts.min() > 650 and counts.max() < 950  # 800 each


def test_chance_is_a_guess_among_the_values() -> None:
    task = Mqar(vocabulary=32, slices=[(32, 8)])
    batch = task.sample(2_000, SIX.at(0))
    guess = torch.full((32, 2_000, 32), -100.0)
    guess[..., 16:] = torch.rand(32, 2_000, 16, generator=SIX.at(1))
    assert task.errors(guess, batch)["error_rate"] == pytest.approx(task.chance(8), abs=0.01)
    perfect = torch.nn.functional.one_hot(batch.targets, 32).float()
    assert task.errors(perfect, batch)["error_rate"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary": 7}, "vocabulary"),
        ({"slices": []}, "slices"),
        ({"slices": [(15, 2)]}, "slices"),
        ({"slices": [(16, 5)]}, "slices"),
        ({"vocabulary": 16, "slices": [(64, 8)]}, "pairs: expected at most the 7 keys"),
    ],
)
def test_wrong_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mqar(**settings)


def test_answers_alone_give_the_loss_of_all_outputs() -> None:
    task = Mqar(vocabulary=16, slices=[(8, 2)])
    assert isinstance(task, Task)
    batch = task.sample(3, SIX.at(0))
    outputs = torch.randn(8, 3, 16)
    assert task.loss(outputs, batch) == task.loss(outputs[batch.mask], batch)
    assert task.errors(outputs, batch) == task.errors(outputs[batch.mask], batch)
    for wrong in (outputs[batch.mask][1:], outputs[1:]):
        with pytest.raises(ValueError, match="outputs: expected shape"):
            task.loss(wrong, batch)
