from __future__ import annotations

import pytest
import torch

from sparsam.lab.tasks.tokens.word_problem import WordProblem, elements, multiplication_table
from sparsam.lab.training.seeds import MinibatchSeeds

SEEDS = MinibatchSeeds(4)


@pytest.mark.parametrize(("group", "order"), [("S5", 120), ("A5", 60)])
def test_the_table_is_a_group_that_is_not_commutative(group: str, order: int) -> None:
    table = multiplication_table(group)
    tokens = torch.arange(order)
    assert table.shape == (order, order) and len(set(elements(group))) == order
    assert table[0].equal(tokens) and table[:, 0].equal(tokens)  # token 0 is the identity
    assert all(row.sort().values.equal(tokens) for row in [*table, *table.t()])  # so everyone has an inverse
    assert table[table].equal(table[:, table].view(order, order, order))  # (a b) c = a (b c), all of them
    assert not table.equal(table.t())


@pytest.mark.parametrize("group", ["S5", "A5"])
@pytest.mark.parametrize("length", [1, 2, 3, 17, 64])
def test_every_prefix_by_brute_force(group: str, length: int) -> None:
    task = WordProblem(group)
    batch = task.sample_size(5, SEEDS.at(length), length)
    members = elements(group)
    assert batch.inputs.shape == (length, 5) and batch.mask.all()
    for b in range(5):
        product = tuple(range(5))
        for token, answer in zip(batch.inputs[:, b].tolist(), batch.targets[:, b].tolist(), strict=True):
            factor = members[token]
            product = tuple(product[factor[i]] for i in range(5))
            assert members[answer] == product


def test_lengths_seeds_and_chance() -> None:
    task = WordProblem("A5", 2, 4)
    assert {task.sample(1, SEEDS.at(i)).inputs.shape[0] for i in range(40)} == {2, 3, 4}
    assert {task.sample(1, SEEDS.at(i), level=2).inputs.shape[0] for i in range(40)} == {1, 2}
    assert task.sample(2, SEEDS.at(7)).inputs.equal(task.sample(2, MinibatchSeeds(4).at(7)).inputs)
    batch = task.sample_size(4_000, SEEDS.at(0), 4)
    assert torch.bincount(batch.targets[-1], minlength=60).min() > 30  # products are uniform, so chance is 1 - 1/60
    assert task.chance(4) == pytest.approx(59 / 60)
    with pytest.raises(ValueError, match="group: expected one of S5, A5"):
        WordProblem("S6")
    with pytest.raises(ValueError, match="min_length"):
        WordProblem(min_length=0)
