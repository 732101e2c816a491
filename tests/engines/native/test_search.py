"""Exact search that several threads share."""

from __future__ import annotations

import pytest
import torch

import sparsam
from benchmarks.timing import threads

MANY = 3 * 16_384 + 1_000  # words, enough for three threads


def outcome(model: sparsam.SAM, x: torch.Tensor, memory: torch.Tensor | None, count: int) -> tuple[torch.Tensor, ...]:
    with threads(count), torch.no_grad():
        state = model.initial_state(x.shape[1], initial_memory=memory)
        y, after = model(x, state)
    return y, after.read_rows, after.read_weights


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_full_memory_is_searched_alike_by_any_number_of_threads(similarity: str, count: int) -> None:
    torch.manual_seed(0)
    model = sparsam.SAM(3, 2, memory_size=MANY, word_size=8, similarity=similarity, engine="native")
    memory = torch.randn(MANY, 8).round()  # many equal words: ties go to the lowest row, whoever finds it
    x = torch.randn(6, 1, 3)
    for one, several in zip(outcome(model, x, memory, 1), outcome(model, x, memory, count)):
        assert torch.equal(one, several)


def test_words_written_on_the_way_are_searched_alike() -> None:
    torch.manual_seed(1)
    model = sparsam.SAM(3, 2, hidden_size=8, memory_size=100_000, word_size=8, num_heads=8, k=2, engine="native")
    x = torch.randn(4_150, 1, 3)
    for one, several in zip(outcome(model, x, None, 1), outcome(model, x, None, 2)):
        assert torch.equal(one, several)


def test_rows_are_those_of_the_reference() -> None:
    torch.manual_seed(2)
    models = [sparsam.SAM(3, 2, memory_size=MANY, word_size=8, engine=engine) for engine in ("native", "reference")]
    models[1].load_state_dict(models[0].state_dict())
    memory, x = torch.randn(MANY, 8), torch.randn(4, 1, 3)
    native, reference = (outcome(model, x, memory, 3) for model in models)
    torch.testing.assert_close(native[0], reference[0])
    assert torch.equal(native[1].long(), reference[1].long())
