"""Task 3's stories of our own: true answers, three facts, and the official files' statistics."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from statistics import mean

import numpy as np
import pytest

from sparsam.lab.data import babi_three
from sparsam.lab.data.babi import open_babi, parse_stories, words_of
from sparsam.lab.data.locate import MissingData
from sparsam.lab.tasks.babi.task import Babi

QUESTION = re.compile(r"Where was the (\w+) before the (\w+)\? *\t(\w+)\t([\d ]+)")


def stories(text: str) -> list[list[str]]:
    """Lines without their numbers, story by story."""
    found: list[list[str]] = []
    for line in text.splitlines():
        number, _, rest = line.partition(" ")
        if number == "1":
            found.append([])
        found[-1].append(rest)
    return found


def answered(lines: list[str]) -> tuple[int, list[list[str]]]:
    """Follow a story by its words alone; returns its questions and the lines that support each answer."""
    held: dict[str, str] = {}
    been: dict[str, list[str]] = {}  # of a thing, the places it was carried to since it was picked up
    count, support = 0, []
    for line in lines:
        if match := QUESTION.match(line):
            thing, place, answer, facts = match.groups()
            last = max(number for number, name in enumerate(been[thing]) if name == place)
            assert last and been[thing][last - 1] == answer
            support.append([lines[int(fact) - 1] for fact in facts.split()])
            count += 1
            continue
        words = line.rstrip(".").split()
        if "to" in words:
            for thing, person in held.items():
                if person == words[0]:
                    been[thing].append(words[-1])
            continue
        thing = next(word for word in words if word in babi_three.OBJECTS)
        if any(verb in line for verb in babi_three.TAKE):
            assert thing not in held
            held[thing], been[thing] = words[0], []
        else:
            assert held.pop(thing) == words[0]
    return count, support


def figures(text: str) -> dict[str, float]:
    """What is compared with the official files."""
    told = stories(text)
    asked = [[number for number, line in enumerate(lines) if "?" in line] for lines in told]
    gaps = [after - before - 1 for ends in asked for before, after in pairwise(ends)]
    lines = [line for one in told for line in one]
    facts = [line for line in lines if "?" not in line]
    supports = [[int(n) for n in QUESTION.match(line)[4].split()] for line in lines if "?" in line]  # type: ignore[index]
    ends = [number + 1 for one in asked for number in one]
    return {
        "lines": mean(map(len, told)),
        "first question": mean(one[0] for one in asked),
        "asked after two": mean(gap == 2 for gap in gaps),
        "moves": mean(" to the " in line for line in facts),
        "there": mean(line.endswith("there.") for line in facts),
        "put down": mean(one[0] > one[1] for one in supports),
        "distance of the oldest fact": mean(end - min(one) for end, one in zip(ends, supports)),
        "distance of the newest fact": mean(end - max(one) for end, one in zip(ends, supports)),
        "distance between the moves": mean(one[1] - one[2] for one in supports),
    }


# Twice the standard error of 385 stories, about; relative.
CLOSE = {"lines": 0.10, "first question": 0.18, "asked after two": 0.10, "moves": 0.02, "there": 0.10, "put down": 0.06,
         "distance of the oldest fact": 0.10, "distance of the newest fact": 0.10,
         "distance between the moves": 0.10}  # fmt: skip


@pytest.fixture(scope="module")
def text() -> str:
    return babi_three.text(400, seed=1)


def test_answers_follow_and_three_facts_support_them(text: str) -> None:
    for lines in stories(text):
        count, support = answered(lines)
        assert count == babi_three.QUESTIONS and len(lines) <= babi_three.LONGEST
        for first, second, third in support:
            assert " to the " not in first and " to the " in second and " to the " in third


def test_every_story_can_be_read(text: str) -> None:
    assert all(story.num_questions == 5 and len(story.needed) <= 20 for story in parse_stories(text))


def test_the_same_seed_tells_the_same_stories() -> None:
    assert babi_three.text(3, 7) == babi_three.text(3, 7) != babi_three.text(3, 8)


def test_statistics_are_those_of_the_official_files(text: str) -> None:
    try:
        files = open_babi()
    except MissingData:
        pytest.skip("the download is not on this machine (set SPARSAM_DATA)")
    official = "".join(files.contents[files.path(3, split)].decode() for split in ("train", "test"))
    assert sum(answered(lines)[0] for lines in stories(official)[:200]) == 1000  # the official ones read the same way
    words = [{word for line in lines.splitlines() for word in words_of(QUESTION.sub("", line[line.index(" ") :]))}
             for lines in (text, official)]  # fmt: skip
    assert words[0] == words[1]
    ours, theirs = figures(text), figures(official)
    for name, close in CLOSE.items():
        assert ours[name] == pytest.approx(theirs[name], rel=close), name


def test_fill_completes_training_and_nothing_else() -> None:
    try:
        partial = open_babi().partial
    except MissingData:
        pytest.skip("the bAbI download is not on this machine (set SPARSAM_DATA)")
    if partial != [3]:
        pytest.skip("the training file of task 3 is complete here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, filled = Babi(tasks=[3]), Babi(tasks=[3], fill=True)
    for split in ("validation", "test"):
        assert np.array_equal(plain.split(split).words, filled.split(split).words)
    assert filled.train.num_questions + filled.validation.num_questions == 10_000
    assert "8,075 of 10,000 training questions are our own" in filled.notes[-1]
    assert np.array_equal(filled.train.words[: len(plain.train.words)], plain.train.words)
