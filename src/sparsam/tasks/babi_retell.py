"""Stories of bAbI told in another way: facts in another order, maps from the other side, people of other tasks.

Its generator has habits that a story's truth does not need. The facts of tasks 15, 17 and 19 mean the same in any
order, and so do those of task 16 as long as the kinds of the animals keep theirs (the last one introduced decides);
"the kitchen is north of the office" says what "the office is south of the kitchen" says (task 19); and whoever moves
about in tasks 1 to 14 could be anybody who does so in another of them. What learns from stories retold like this has to
learn what the words mean, not where they stand.
"""

from __future__ import annotations

import numpy as np
import torch

from sparsam.data.babi_official import VOCABULARY
from sparsam.tasks.babi_encoded import Encoded, word_numbers
from sparsam.tasks.babi_exchange import KINDS, Exchange, Kind

__all__ = ["REORDERED", "WIDE_KINDS", "Retelling"]

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
