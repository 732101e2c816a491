"""How training stories of bAbI are varied: other names, further questions, other orders. Evaluation never has these.

**Names** (`Exchange`). The tasks are made by a simulation that draws people, places and things at random, so a story
stays true when Mary and John change places in all of it, questions and answers included. 10,000 questions of a task can
be learned by heart; with a fresh exchange each time a story is drawn they become 10,000 times 4! 6! 3! and more, and
what is left to learn is how the words relate. What carries meaning beyond its story is never exchanged: the verbs, the
time of day, sizes (task 18), and where the hungry go (task 20).

A *kind* is a list of members, a member a tuple of forms: `("mouse", "mice")` changes with `("cat", "cats")` in
both numbers, north and south take the answers n and s along, and the objects of task 17 are exchanged as whole
phrases, `("red", "square")`. Sheep stay: singular and plural look the same.

**Questions** (`ask_more`). Task 16 (basic induction) asks one question of three hops: Brian is a lion; the last other
lion that was introduced is Julius; Julius is white. Its stories can also be asked for parts of that way: "what color is
julius" (the story says so) and "what color is a lion" (that of the last one introduced). These come after the story's
own question, which is therefore asked as in the test files. The rule that answers them answers all of the task's own
questions.

**Retelling** (`Retelling`). The generator has habits that a story's truth does not need. The facts of tasks 15, 17 and
19 mean the same in any order, and so do those of task 16 as long as the kinds of the animals keep theirs (the last one
introduced decides); "the kitchen is north of the office" says what "the office is south of the kitchen" says (task 19);
and whoever moves about in tasks 1 to 14 could be anybody who does so in another of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from sparsam.lab.data.babi_official import DASH, VOCABULARY
from sparsam.lab.tasks.babi.encoded import Encoded, word_numbers

__all__ = ["ASKED_MORE", "KINDS", "REORDERED", "WIDE_KINDS", "Exchange", "Kind", "Retelling", "ask_more"]

Kind = tuple[tuple[str, ...], ...]


def _kind(words: str) -> Kind:
    """`"cat cats, wolf wolves"`: members between commas, their forms between spaces."""
    return tuple(tuple(member.split()) for member in words.split(","))


_FOUR = _kind("mary, john, daniel, sandra")
_ROOMS = _kind("bathroom, bedroom, garden, hallway, kitchen, office")
_THINGS = _kind("apple, football, milk")
_TOWN = _kind("bedroom, cinema, kitchen, office, park, school")
_TOWNSFOLK = _kind("mary, fred, bill, julie")
_COMPASS = (_kind("north n, south s"), _kind("east e, west w"))

# What may be exchanged in each task.
KINDS: dict[int, tuple[Kind, ...]] = {
    **dict.fromkeys((1, 9, 12, 13), (_FOUR, _ROOMS)),
    **dict.fromkeys((2, 3, 6, 7, 8), (_FOUR, _ROOMS, _THINGS)),
    4: (_ROOMS, *_COMPASS),
    5: (_kind("mary, fred, jeff, bill"), _ROOMS, _THINGS),
    **dict.fromkeys((10, 14), (_TOWNSFOLK, _TOWN)),
    11: (_kind("john, daniel"), _kind("mary, sandra"), _ROOMS),  # he and she
    15: (_kind("emily, gertrude, jessica, winona"), _kind("mouse mice, cat cats, wolf wolves")),
    16: (
        _kind("bernhard, brian, greg, julius, lily"),
        _kind("frog, lion, rhino, swan"),
        _kind("gray, green, white, yellow"),
    ),
    17: (
        _kind("pink rectangle, blue square, red square, yellow square, red sphere"),
        _kind("left, right"),
        _kind("above, below"),
    ),
    18: (),
    19: (_ROOMS, *_COMPASS),
    20: (_kind("antoine, jason, sumit, yann"),),
}
# Kinds whose forms are the words of a phrase, known by their neighbours.
_PHRASES = KINDS[17][0]


class Exchange:
    """Exchanges names in stories of word numbers.

    Args:
        vocabulary: the word of every number.
        by_task: what may be exchanged in each task; `KINDS` unless told.
    """

    def __init__(self, vocabulary: Sequence[str], by_task: dict[int, tuple[Kind, ...]] | None = None) -> None:
        by_task = KINDS if by_task is None else by_task
        number = {word: index for index, word in enumerate(vocabulary)}
        kinds = max(len(kinds) for kinds in by_task.values())
        self._members = max(len(kind) for kinds in by_task.values() for kind in kinds)
        self._vocabulary = len(vocabulary)
        self._word = np.zeros((21, kinds, self._members, 2), np.int64)
        self._sizes = np.zeros((21, kinds), np.int64)
        # Of every task, each word that may be exchanged: its number, its kind, which member and which form it is. Rows
        # are filled up with a word beyond the vocabulary.
        entries: list[list[tuple[int, int, int, int]]] = [[] for _ in range(21)]
        for task, task_kinds in by_task.items():
            for k, kind in enumerate(task_kinds):
                self._sizes[task, k] = len(kind)
                for m, member in enumerate(kind):
                    for f, word in enumerate(member):
                        self._word[task, k, m, f] = number[word]
                        entries[task].append((number[word], k, m, f))
        most = max(len(row) for row in entries)
        filled = [row + [(self._vocabulary, 0, 0, 0)] * (most - len(row)) for row in entries]
        self._entries = np.moveaxis(np.array(filled, np.int64), -1, 0)  # (4, tasks, most)
        self._phrase = {(number[first], number[second]): m for m, (first, second) in enumerate(_PHRASES)}

    def permutations(self, tasks: np.ndarray, generator: torch.Generator, share: float = 1.0) -> np.ndarray:
        """(B, kinds, members): for stories of these tasks, who stands for whom; a kind's absent members stay, and so
        do all of the stories beyond the `share` to be changed."""
        sizes = self._sizes[tasks]
        order = torch.rand((*sizes.shape, self._members), generator=generator).numpy()
        changed = torch.rand(len(tasks), generator=generator).numpy() < share
        member = np.arange(self._members)
        return np.where((member < sizes[..., None]) & changed[:, None, None], order, 1 + member).argsort(-1)

    def apply(self, words: np.ndarray, tasks: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """(T, B) words, negative where there is none, of stories of `tasks` (B,), with the names exchanged."""
        return self.look_up(words, tasks, self.tables(tasks, permutations), self.phrases(permutations))

    def tables(self, tasks: np.ndarray, permutations: np.ndarray) -> np.ndarray:
        """(B, words): what each word becomes in each story, but for the phrases of task 17."""
        word, kind, member, form = self._entries[:, tasks]
        story = np.arange(len(tasks))[:, None]
        tables = np.tile(np.arange(self._vocabulary + 1), (len(tasks), 1))
        tables[story, word] = self._word[tasks[:, None], kind, permutations[story, kind, member], form]
        return tables[:, :-1]

    @staticmethod
    def phrases(permutations: np.ndarray) -> np.ndarray:
        """(B, phrases): which phrase stands for which in stories of task 17."""
        return permutations[:, 0, : len(_PHRASES)]

    def look_up(self, words: np.ndarray, tasks: np.ndarray, tables: np.ndarray, phrases: np.ndarray) -> np.ndarray:
        """As `apply`, by what `tables` and `phrases` say."""
        exchanged = np.where(words >= 0, tables[np.arange(len(tasks)), np.maximum(words, 0)], words)
        shapes = np.flatnonzero(tasks == 17)
        if len(shapes):  # the two words of a phrase are told apart by the other one (red square, red sphere)
            told, chosen = words[:, shapes], exchanged[:, shapes]
            for (first, second), m in self._phrase.items():
                step, story = np.nonzero((told[:-1] == first) & (told[1:] == second))
                chosen[step, story], chosen[step + 1, story] = self._word[17, 0, phrases[shapes[story], m]].T
            exchanged[:, shapes] = chosen
        return exchanged


ASKED_MORE = (16,)  # the tasks that this file knows questions for
_EACH = 2  # questions for somebody's colour, and as many for a kind's

Question = tuple[list[str], str, list[int]]  # its words, the answer, the lines that support it


def ask_more(stories: Encoded, tasks: Sequence[int], seed: int = 0) -> Encoded:
    """The same stories, those of `tasks` with further questions, the same ones for the same `seed`."""
    random = np.random.default_rng([seed, 16])
    chosen = np.isin(stories.tasks, tasks)
    extended = [_extended(stories.one(number), random) for number in np.flatnonzero(chosen).tolist()]
    others = stories.subset(np.flatnonzero(~chosen))
    return others.joined(*extended)


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
    needed = np.concatenate([needed, np.ones(len(words) - len(needed), bool)])
    starts, numbers = np.array([0, len(words)]), partial(np.asarray, dtype=np.int16)
    return Encoded(numbers(words), numbers(targets), numbers(questions), numbers(lines), needed, starts, story.tasks)


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


REORDERED = (15, 16, 17, 19)
_MEN = (("john",), ("daniel",), ("fred",), ("bill",), ("jeff",))
_WOMEN = (("mary",), ("sandra",), ("julie",))


def _wide(task: int, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    if task == 11:  # he and she
        return (_MEN, _WOMEN, *kinds[2:])
    return tuple(_MEN + _WOMEN if ("mary",) in kind else kind for kind in kinds)


# As `KINDS`, with the people of all tasks that share their verbs.
WIDE_KINDS = {task: _wide(task, kinds) for task, kinds in KINDS.items()}


class Retelling:
    """Draws how stories are told, and changes their words."""

    def __init__(self) -> None:
        self.exchange = Exchange(VOCABULARY, WIDE_KINDS)
        self._a = word_numbers(["a"])[0]
        self._opposite = np.arange(len(VOCABULARY))
        for one, other in (("north", "south"), ("east", "west")):
            a, b = word_numbers([one, other])
            self._opposite[[a, b]] = b, a

    def order(self, stories: Encoded, chosen: np.ndarray, retold: np.ndarray, random: torch.Generator) -> np.ndarray:
        """(lines, B): the place that each line of the stories `chosen` is told at, its own one where not `retold`."""
        lines = stories.num_lines
        keys = torch.rand(lines, len(chosen), generator=random).numpy()
        places = np.repeat(np.arange(lines, dtype=np.float64)[:, None], len(chosen), 1)
        columns = np.flatnonzero(retold & np.isin(stories.tasks[chosen], REORDERED))
        if len(columns):
            facts = stories.facts[chosen[columns]]  # lines before the first question
            line = np.arange(int(facts.max()))[:, None]
            drawn = np.where(line < facts, keys[: len(line), columns], 1.0 + line)
            kinds = self._kinds(stories, chosen[columns], line.size) & (line < facts)
            in_order = np.sort(np.where(kinds, drawn, np.inf), axis=0)
            drawn = np.where(kinds, np.take_along_axis(in_order, np.maximum(kinds.cumsum(0) - 1, 0), 0), drawn)
            places[: len(line), columns] = drawn.argsort(0).argsort(0)
        return places

    def _kinds(self, stories: Encoded, chosen: np.ndarray, lines: int) -> np.ndarray:
        """(lines, B): whether a line of a story of task 16 tells the kind of an animal."""
        kinds = np.zeros((lines, len(chosen)), bool)
        lengths = stories.lengths[chosen]
        time = np.arange(int(lengths.max()))[:, None]
        source = np.where(time < lengths, stories.starts[chosen] + time, 0)
        told = (stories.words[source] == self._a) & (time < lengths) & (stories.lines[source] < lines)
        step, story = np.nonzero(told & (stories.tasks[chosen] == 16))
        kinds[stories.lines[source[step, story]], story] = True
        return kinds

    def turned(self, words: np.ndarray, tasks: np.ndarray, retold: np.ndarray, random: torch.Generator) -> np.ndarray:
        """(T, B) words of stories of `tasks`, with half of the facts of retold maps described from the other side."""
        drawn = torch.rand(words.shape, generator=random).numpy() < 0.5
        words, maps = words.copy(), np.flatnonzero(retold & (tasks == 19))
        told = words[:, maps]
        step, story = np.nonzero((self._opposite[np.maximum(told, 0)] != told) & (told >= 0) & drawn[:, maps])
        story = maps[story]  # the office is south of the kitchen
        words[step, story] = self._opposite[words[step, story]]
        words[step - 2, story], words[step + 3, story] = words[step + 3, story], words[step - 2, story]
        return words
