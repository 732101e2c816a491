"""Further questions for training stories: what is asked, what the answers are, and that nothing else changes."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from sparsam.lab.data.babi import Story, words_of
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.tasks.babi.augment import ask_more
from sparsam.lab.tasks.babi.encoded import encode
from sparsam.lab.tasks.babi.task import Babi

SAMPLE = Path(__file__).parents[2] / "data" / "babi"
FACTS = (
    "julius is a lion",
    "lily is a lion",
    "julius is white",
    "bernhard is a swan",
    "lily is green",
    "bernhard is gray",
    "brian is a lion",
)


def story(task: int = 16) -> tuple[int, Story]:
    told = Story()
    for fact in FACTS:
        told.add(words_of(f"{fact} ."))
    told.add(words_of("what color is brian ?"))
    told.ask(["green"], support=[6, 1, 4])
    return task, told


def asked(encoded, number: int) -> list[tuple[str, str]]:
    """Every question of a story with its answer."""
    one = encoded.one(number)
    found = []
    for step in np.flatnonzero(one.targets >= 0):
        words = one.words[one.lines == one.lines[step]]
        found.append((" ".join(VOCABULARY[word] for word in words), VOCABULARY[one.targets[step]]))
    return found


def test_the_answers_follow_from_the_story():
    answers = {
        "what color is brian ? -": "green",  # as Lily, the last other lion, not as Julius
        "what color is julius ? -": "white",
        "what color is lily ? -": "green",
        "what color is bernhard ? -": "gray",
        "what color is a lion ? -": "green",
        "what color is a swan ? -": "gray",
    }
    more = ask_more(encode([story()] * 20), [16])
    seen = [pair for number in range(20) for pair in asked(more, number)]
    assert all(answers[question] == answer for question, answer in seen)
    assert {question for question, _ in seen} == set(answers)
    assert all(len(asked(more, number)) == 5 for number in range(20))


def test_the_storys_own_words_stay_as_they_are():
    plain = encode([story(1), story(), story(2)])
    more = ask_more(plain, [16])
    assert more.tasks.tolist() == [1, 2, 16]
    own = plain.one(1)
    for name in ("words", "targets", "questions", "lines"):
        assert np.array_equal(getattr(more.one(2), name)[: len(own.words)], getattr(own, name))
        assert np.array_equal(getattr(more.one(0), name), getattr(plain.one(0), name))
    assert more.one(2).questions.max() == 4


def test_what_supports_a_further_question_is_needed():
    more = ask_more(encode([story()]), [16]).one(0)
    for question, _ in asked(more, 0)[1:]:
        subject = VOCABULARY.index(question.split()[-3])
        lines = [line for line in range(7) if subject in more.words[more.lines == line]]
        assert any(more.needed[more.lines == line].all() for line in lines)


def test_only_training_is_asked_more():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Babi(SAMPLE, verify=False, validation=0.25)
        more = Babi(SAMPLE, verify=False, validation=0.25, ask_more=[16], exchange=1.0)
    for split in ("validation", "test"):
        assert np.array_equal(plain.split(split).words, more.split(split).words)
    sixteen = (plain.train.tasks == 16).sum()
    added = more.train.num_questions - plain.train.num_questions
    assert sixteen and sixteen <= added <= 4 * sixteen  # short stories do not have four more
    assert more.sample(8, torch.Generator().manual_seed(0)).mask.any()
    with pytest.raises(ValueError, match="ask_more: expected tasks among"):
        Babi(SAMPLE, verify=False, ask_more=[3])
