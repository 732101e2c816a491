"""Stories told in another way stay true: what is reordered, what is turned round, who takes part."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from sparsam.lab.data.babi import Story, words_of
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.tasks.babi.augment import KINDS, WIDE_KINDS, Retelling
from sparsam.lab.tasks.babi.encoded import encode, word_numbers
from sparsam.lab.tasks.babi.task import Babi

SAMPLE = Path(__file__).parents[2] / "data" / "babi"
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stories(task: int, facts: tuple[str, ...], question: str, answer: list[str], count: int = 32):
    told = Story()
    for fact in facts:
        told.add(words_of(f"{fact} ."))
    told.add(words_of(f"{question} ?"))
    told.ask(answer)
    return encode([(task, told)] * count)


def lines(encoded, order: np.ndarray) -> list[list[str]]:
    """The lines of every story as it is told."""
    chosen = np.arange(len(encoded))
    batch = encoded.batch(chosen, order=order)
    text = [" ".join(VOCABULARY[i] for i in batch.inputs[:n, b].argmax(-1)) for b, n in enumerate(batch.lengths)]
    return [one.split(" . ") for one in text]


def test_facts_come_in_any_order_and_the_question_last():
    facts = ("mice are afraid of cats", "emily is a mouse", "cats are afraid of wolves", "winona is a cat")
    encoded = stories(15, facts, "what is emily afraid of", ["cat"])
    order = Retelling().order(encoded, np.arange(32), np.arange(32) < 31, generator())
    told = lines(encoded, order)
    assert all(sorted(one[:4]) == sorted(facts) and one[4] == "what is emily afraid of ? -" for one in told)
    assert len({tuple(one) for one in told}) > 10
    assert tuple(told[31][:4]) == facts  # not retold


def test_the_kinds_of_task_16_keep_their_order():
    facts = ("lily is a frog", "lily is green", "greg is a frog", "greg is gray", "brian is a frog")
    encoded = stories(16, facts, "what color is brian", ["gray"])
    told = lines(encoded, Retelling().order(encoded, np.arange(32), np.ones(32, bool), generator()))
    for one in told:
        kinds = [line for line in one if line.endswith("a frog")]
        assert kinds == ["lily is a frog", "greg is a frog", "brian is a frog"]
    assert any(one.index("greg is gray") < one.index("greg is a frog") for one in told)


def test_other_tasks_are_told_as_they_come():
    encoded = stories(1, ("mary moved to the park", "mary moved to the office"), "where is mary", ["office"])
    order = Retelling().order(encoded, np.arange(32), np.ones(32, bool), generator())
    assert all(one[:2] == ["mary moved to the park", "mary moved to the office"] for one in lines(encoded, order))


def test_a_map_described_from_the_other_side_is_the_same_map():
    facts = ("the kitchen is north of the office", "the garden is east of the office")
    text = words_of(" . ".join(facts) + " . how do you go from the kitchen to the garden ?")
    words = np.repeat(np.array(word_numbers(text))[:, None], 64, 1)
    tasks, retold = np.full(64, 19), np.arange(64) < 63
    turned = Retelling().turned(words, tasks, retold, generator())
    same = set()
    for fact in facts:
        place, direction, other = (fact.split()[i] for i in (1, 3, 6))
        same |= {(place, direction, other), (other, OPPOSITE[direction], place)}
    seen = set()
    for b in range(64):
        said = " ".join(VOCABULARY[i] for i in turned[:, b]).split(" . ")
        assert said[2] == "how do you go from the kitchen to the garden ?"
        for fact in said[:2]:
            one = fact.split()
            assert (one[1], one[3], one[6]) in same
        seen.add(tuple(said[:2]))
    assert len(seen) == 4 and tuple(" ".join(VOCABULARY[i] for i in turned[:, 63]).split(" . ")[:2]) == facts


def test_people_of_other_tasks_take_part():
    for task, kinds in KINDS.items():
        assert len(kinds) == len(WIDE_KINDS[task])
        assert all(set(kind) <= set(wide) for kind, wide in zip(kinds, WIDE_KINDS[task]))
    wide = Retelling().exchange
    words = np.repeat(np.array(word_numbers(words_of("mary moved to the office .")))[:, None], 200, 1)
    tasks = np.ones(200, np.int64)
    changed = wide.apply(words, tasks, wide.permutations(tasks, generator()))
    people = {VOCABULARY[i] for i in changed[0]}
    assert people == {"mary", "john", "daniel", "sandra", "fred", "bill", "julie", "jeff"}
    assert {VOCABULARY[i] for i in changed[1]} == {"moved"}


def test_only_training_stories_are_retold():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = Babi(SAMPLE, verify=False, validation=0.25, retell=1.0, ask_more=[16], easy_first=[16])
        plain = Babi(SAMPLE, verify=False, validation=0.25)
    for split in ("validation", "test"):
        first, second = (next(t.evaluation_batches(split, 4)) for t in (task, plain))
        assert torch.equal(first.inputs, second.inputs)
    batch = task.sample(8, generator(), 50)
    assert batch.mask.any() and (batch.inputs.sum(-1) <= 1).all()
    with pytest.raises(ValueError, match="retell: expected a share"):
        Babi(SAMPLE, verify=False, retell=1.5)


def test_facts_are_the_lines_before_the_first_question():
    encoded = stories(16, ("lily is a frog", "lily is green", "greg is a frog"), "what color is greg", ["green"], 3)
    assert encoded.facts.tolist() == [3, 3, 3] and encoded.num_lines == 4
