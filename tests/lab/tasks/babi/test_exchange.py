"""Names exchanged in stories: what changes, what stays, and that the answers go along."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.tasks.babi.augment import KINDS, Exchange
from sparsam.lab.tasks.babi.task import word_numbers
from tests.beside import examples


@pytest.fixture(scope="module")
def exchange() -> Exchange:
    return Exchange(VOCABULARY)


def tell(exchange: Exchange, task: int, text: str, seed: int) -> str:
    words = np.array(word_numbers(text.split()))[:, None]
    tasks = np.array([task])
    permutations = exchange.permutations(tasks, torch.Generator().manual_seed(seed))
    return " ".join(VOCABULARY[word] for word in exchange.apply(words, tasks, permutations)[:, 0])


def test_every_name_of_every_kind_is_a_word_and_belongs_to_one_kind():
    for task, kinds in KINDS.items():
        words = [word for kind in kinds for member in kind for word in member]
        word_numbers(words)
        if task != 17:  # whose objects share their colours and shapes
            assert len(words) == len(set(words)), task


@examples(60)
@given(task=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**31))
def test_an_exchange_is_a_renaming_that_can_be_undone(task, seed):
    exchange = Exchange(VOCABULARY)
    members = [member for kind in KINDS[task] for member in kind]
    if task == 17:
        members = [
            ("red", "square"),
            ("red", "sphere"),
            ("blue", "square"),
            ("left",),
            ("right",),
            ("above",),
            ("below",),
        ]
    words = np.array(word_numbers([word for member in members for word in member] + ["the", "is", "."]))[:, None]
    tasks = np.array([task])
    permutations = exchange.permutations(tasks, torch.Generator().manual_seed(seed))
    there = exchange.apply(words, tasks, permutations)
    assert np.array_equal(there[-3:], words[-3:])
    assert np.array_equal(exchange.apply(there, tasks, permutations.argsort(-1)), words)


def test_all_orders_of_a_kind_occur_equally_often(exchange):
    tasks = np.full(6000, 2)
    people = exchange.permutations(tasks, torch.Generator().manual_seed(0))[:, 0, :4]
    _, counts = np.unique(people, axis=0, return_counts=True)
    assert len(counts) == 24
    assert counts.min() > 250 - 80 and counts.max() < 250 + 80


def test_stories_of_a_batch_are_exchanged_apart(exchange):
    words = np.array(word_numbers(["mary"] * 64))[None]
    tasks = np.full(64, 1)
    told = exchange.apply(words, tasks, exchange.permutations(tasks, torch.Generator().manual_seed(1)))
    assert {VOCABULARY[word] for word in told[0]} == {"mary", "john", "daniel", "sandra"}


def test_objects_of_task_17_change_as_phrases(exchange):
    story = "the red square is to the left of the red sphere . is the red sphere above the red square ?"
    for seed in range(20):
        told = tell(exchange, 17, story, seed)
        first, second = told.split(" is to ")[0][4:], told.split(" of the ")[1].split(" .")[0]
        assert first != second and tuple(first.split()) in KINDS[17][0] and tuple(second.split()) in KINDS[17][0]
        assert told.endswith(f"the {second} {told.split()[-5]} the {first} ?")


def test_answers_follow_their_words(exchange):
    for seed in range(10):
        north, _, answer = tell(exchange, 19, "north of n", seed).split()
        assert (north, answer) in {("north", "n"), ("south", "s")}
        mice, _, mouse = tell(exchange, 15, "mice are mouse", seed).split()
        assert (mouse, mice) in KINDS[15][1]


def test_he_and_she_stay_right_and_meaning_is_kept(exchange):
    for seed in range(10):
        assert tell(exchange, 11, "john", seed) in ("john", "daniel")
        hungry = "yann is hungry . yann went to the kitchen ."
        assert tell(exchange, 20, hungry, seed).split()[1:][:2] == ["is", "hungry"]
        assert tell(exchange, 20, hungry, seed).endswith("went to the kitchen .")
        assert tell(exchange, 18, "the box of chocolates fits inside the chest", seed).endswith("the chest")


def test_no_word_stays_no_word(exchange):
    words = np.array([[-1, 3], [-1, -1]])
    tasks = np.array([1, 17])
    told = exchange.apply(words, tasks, exchange.permutations(tasks, torch.Generator().manual_seed(0)))
    assert (told[words < 0] == -1).all()


def test_what_is_looked_up_is_what_is_applied():
    """One table for inputs and targets, as training makes it, against both exchanged apart."""
    exchange = Exchange(VOCABULARY)
    tasks = np.arange(1, 21)
    words = np.random.default_rng(0).integers(-1, len(VOCABULARY), (60, 20))
    permutations = exchange.permutations(tasks, torch.Generator().manual_seed(0))
    tables, phrases = exchange.tables(tasks, permutations), exchange.phrases(permutations)
    assert np.array_equal(exchange.look_up(words, tasks, tables, phrases), exchange.apply(words, tasks, permutations))
    assert all(np.array_equal(np.sort(table), np.arange(len(VOCABULARY))) for table in tables[tasks != 17])
