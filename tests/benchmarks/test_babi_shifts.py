"""Stories of our own: their words, their answers, their seeds."""

from __future__ import annotations

import pytest

from benchmarks.babi_shifts import SHIFTS, stories
from sparsam.lab.data.babi_official import VOCABULARY


def sentences(story):
    lines = [[] for _ in range(story.sentences[-1] + 1)]
    for word, line in zip(story.words, story.sentences):
        lines[line].append(word)
    return lines


@pytest.mark.parametrize("shift", SHIFTS, ids=lambda shift: f"{shift.task}-{shift.name}")
def test_words_are_known_and_the_same_seed_gives_the_same_stories(shift):
    drawn = stories(shift, 20)
    assert {word for _, story in drawn for word in [*story.words, *story.answers]} <= set(VOCABULARY)
    assert [story.words for _, story in drawn] == [story.words for _, story in stories(shift, 20)]
    assert [story.words for _, story in drawn] != [story.words for _, story in stories(shift, 20, seed=1)]
    assert all(task == shift.task and story.num_questions == 1 for task, story in drawn)


def test_the_last_move_answers():
    shift = next(shift for shift in SHIFTS if shift.name == "30 facts")
    for _, story in stories(shift, 20):
        *facts, question = sentences(story)
        last = [fact for fact in facts if fact[0] == question[2]][-1]
        assert story.answers == [last[-2]]


@pytest.mark.parametrize("name", ["maps that are a chain", "usual: maps that branch"])
def test_the_way_leads_there(name):
    shift = next(shift for shift in SHIFTS if shift.name == name)
    steps = {"n": (0, 1), "s": (0, -1), "e": (1, 0), "w": (-1, 0)}
    for _, story in stories(shift, 20):
        *facts, question = sentences(story)
        start, end = question[6], question[9]
        place = {start: (0, 0)}
        while len(place) < 6:
            for fact in facts:
                first, (i, j), second = fact[1], steps[fact[3][0]], fact[6]
                if second in place:
                    place[first] = (place[second][0] + i, place[second][1] + j)
                elif first in place:
                    place[second] = (place[first][0] - i, place[first][1] - j)
        there = tuple(sum(steps[step][axis] for step in story.answers) for axis in (0, 1))
        assert place[end] == there
        assert len(set(place.values())) == 6


def test_ends_of_a_line_of_three_facts():
    shift = next(shift for shift in SHIFTS if shift.name == "three facts")
    for _, story in stories(shift, 40):
        *facts, question = sentences(story)
        order = {}  # (first, second): first stands before second on the axis left to right or above to below
        for fact in facts:
            text = " ".join(fact[:-1])
            relation = next(
                r for r in ("to the left of", "to the right of", "above", "below") if f" is {r} the " in text
            )
            first, second = text.removeprefix("the ").split(f" is {relation} the ")
            order[(first, second) if relation in ("to the left of", "above") else (second, first)] = True
        after = dict(order.keys())
        text = " ".join(question[:-2]).removeprefix("is the ")
        relation = next(r for r in ("to the left of", "to the right of", "above", "below") if f" {r} the " in text)
        first, second = text.split(f" {relation} the ")
        reached = first
        while reached in after:
            reached = after[reached]
        assert story.answers == ["yes" if (reached == second) == (relation in ("to the left of", "above")) else "no"]
