"""Further questions for training stories of bAbI, answered by the facts that they state.

Task 16 (basic induction) asks one question of three hops: Brian is a lion; the last other lion that was introduced is
Julius; Julius is white. Its stories can also be asked for parts of that way, so that a model need not find all of it at
once: "what color is julius" (the story says so) and "what color is a lion" (that of the last one introduced). These
questions come after the story's own one, which is therefore asked as in the test files; evaluation never has them. The
rule that answers them answers all of the task's own questions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsam.data.babi_official import DASH, VOCABULARY
from sparsam.tasks.babi_encoded import Encoded, word_numbers

__all__ = ["ASKED_MORE", "ask_more"]

ASKED_MORE = (16,)  # the tasks that this file knows questions for
_EACH = 2  # questions for somebody's colour, and as many for a kind's

Question = tuple[list[str], str, list[int]]  # its words, the answer, the lines that support it


def ask_more(stories: Encoded, tasks: Sequence[int], seed: int = 0) -> Encoded:
    """The same stories, those of `tasks` with further questions, the same ones for the same `seed`."""
    random = np.random.default_rng([seed, 16])
    chosen = np.isin(stories.tasks, tasks)
    extended = [_extended(stories.one(number), random) for number in np.flatnonzero(chosen).tolist()]
    others = stories.subset(np.flatnonzero(~chosen))
    parts = [others, *extended]
    lengths = np.concatenate([part.lengths for part in parts])
    return Encoded(
        words=np.concatenate([part.words for part in parts]),
        targets=np.concatenate([part.targets for part in parts]),
        questions=np.concatenate([part.questions for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        needed=np.concatenate([part.needed for part in parts]),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        tasks=np.concatenate([part.tasks for part in parts]),
    )


def _extended(story: Encoded, random: np.random.Generator) -> Encoded:
    """One story with up to four questions more, in random order."""
    by_person, by_kind = _colours(story)
    chosen = [by_person[i] for i in random.permutation(len(by_person))[:_EACH]]
    chosen += [by_kind[i] for i in random.permutation(len(by_kind))[:_EACH]]
    words, targets, questions = (list(values) for values in (story.words, story.targets, story.questions))
    lines, needed = list(story.lines), story.needed.copy()
    number, line = max(questions), max(lines)
    for i in random.permutation(len(chosen)):
        asked, answer, support = chosen[i]
        number, line = number + 1, line + 1
        words += word_numbers([*asked, "?", DASH])
        steps = len(words) - len(targets)
        targets += [-1] * (steps - 1) + word_numbers([answer])
        questions += [-1] * (steps - 1) + [number]
        lines += [line] * steps
        needed |= np.isin(story.lines, support)
    asked_lines = np.ones(len(words) - len(needed), bool)
    return Encoded(
        words=np.asarray(words, np.int16),
        targets=np.asarray(targets, np.int16),
        questions=np.asarray(questions, np.int16),
        lines=np.asarray(lines, np.int16),
        needed=np.concatenate([needed, asked_lines]),
        starts=np.array([0, len(words)]),
        tasks=story.tasks,
    )


def _colours(story: Encoded) -> tuple[list[Question], list[Question]]:
    """What can be asked: the colours of people whose colour is told, and those of kinds."""
    kinds: dict[str, tuple[str, int]] = {}  # of a person, in the order of the story, with the line that tells it
    colours: dict[str, tuple[str, int]] = {}
    for line in np.unique(story.lines):
        words = [VOCABULARY[word] for word in story.words[story.lines == line]]
        if words[1] == "is":
            told, last = (kinds, words[3]) if words[2] == "a" else (colours, words[2])
            told[words[0]] = last, int(line)
    by_person = [(["what", "color", "is", person], colour, [line]) for person, (colour, line) in colours.items()]
    latest = {kind: person for person, (kind, _) in kinds.items() if person in colours}
    by_kind = [
        (["what", "color", "is", "a", kind], colours[person][0], [kinds[person][1], colours[person][1]])
        for kind, person in latest.items()
    ]
    return by_person, by_kind
