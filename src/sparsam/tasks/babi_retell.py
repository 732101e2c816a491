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
        lines = int(stories.lines.max()) + 1
        keys = torch.rand(lines, len(chosen), generator=random).numpy()
        places = np.repeat(np.arange(lines, dtype=np.float64)[:, None], len(chosen), 1)
        for b in np.flatnonzero(retold & np.isin(stories.tasks[chosen], REORDERED)):
            story = stories.one(chosen[b])
            facts = int(story.lines[np.flatnonzero(story.targets >= 0)[0]])  # lines before the first question
            drawn = keys[:facts, b]
            if story.tasks[0] == 16:
                kinds = np.unique(story.lines[(story.words == self._a) & (story.lines < facts)])
                drawn[kinds] = np.sort(drawn[kinds])
            places[:facts, b] = drawn.argsort().argsort()
        return places

    def turned(self, words: np.ndarray, tasks: np.ndarray, retold: np.ndarray, random: torch.Generator) -> np.ndarray:
        """(T, B) words of stories of `tasks`, with half of the facts of retold maps described from the other side."""
        drawn = torch.rand(words.shape, generator=random).numpy() < 0.5
        turns = (self._opposite[np.maximum(words, 0)] != words) & (words >= 0) & drawn & retold & (tasks == 19)
        step, story = np.nonzero(turns)  # the office is south of the kitchen
        words = words.copy()
        words[step, story] = self._opposite[words[step, story]]
        words[step - 2, story], words[step + 3, story] = words[step + 3, story], words[step - 2, story]
        return words
