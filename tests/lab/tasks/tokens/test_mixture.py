from __future__ import annotations

import pytest

from sparsam.lab.tasks.tokens.mixture import TokenMixture
from sparsam.lab.training.seeds import MinibatchSeeds

SEEDS = MinibatchSeeds(4)
PARTS = [
    {"name": "mqar", "settings": {"vocabulary": 32, "slices": [[16, 4]]}, "weight": 3},
    {"name": "word_problem", "settings": {"group": "A5", "min_length": 5, "max_length": 5}},
]


def test_each_part_has_tokens_of_its_own_and_comes_as_often_as_it_should() -> None:
    task = TokenMixture(PARTS)
    assert task.vocabulary == task.output_size == 92
    batches = [task.sample(4, SEEDS.at(i)) for i in range(400)]
    names = [batch.info["part"] for batch in batches]
    assert 270 < names.count("mqar") < 330
    for name, batch in zip(names, batches, strict=True):
        low, high = (0, 32) if name == "mqar" else (32, 92)
        for tokens in (batch.inputs, batch.targets):
            assert low <= tokens.min() and tokens.max() < high


def test_wrong_parts_are_named() -> None:
    with pytest.raises(ValueError, match="parts: expected at least one"):
        TokenMixture([])
    with pytest.raises(ValueError, match="parts: expected tasks over tokens"):
        TokenMixture([{"name": "copy"}])
