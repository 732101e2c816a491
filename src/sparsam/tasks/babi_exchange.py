"""Stories of bAbI told with other names: who, where and what exchanged for others of the same kind.

The tasks are made by a simulation that draws people, places and things at random, so a story stays as true as it
was when Mary and John change places in all of it, questions and answers included. 10,000 questions of a task can
be learned by heart; with a fresh exchange each time a story is drawn they become 10,000 times 4! 6! 3! and more,
and what is left to learn is how the words relate. What carries meaning beyond its story is never exchanged: the
verbs, the time of day, sizes (task 18), and where the hungry go (task 20).

A *kind* is a list of members, a member a tuple of forms: `("mouse", "mice")` changes with `("cat", "cats")` in
both numbers, north and south take the answers n and s along, and the objects of task 17 are exchanged as whole
phrases, `("red", "square")`. Sheep stay: singular and plural look the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

__all__ = ["KINDS", "Exchange", "Kind"]

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
