"""Stories of bAbI as arrays of word numbers, and minibatches of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sparsam.lab.data.babi import Story
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.data.locate import DataError
from sparsam.lab.tasks.task import Batch
from sparsam.transfer import sent

__all__ = ["Encoded", "Told", "encode", "word_numbers"]

PER_STEP = ("words", "targets", "questions", "lines", "needed")  # arrays of `Encoded`
_NUMBER = {word: number for number, word in enumerate(VOCABULARY)}


def word_numbers(words: list[str]) -> list[int]:
    """Numbers of words in the vocabulary.

    Raises:
        DataError: naming a word that is not in it.
    """
    try:
        return [_NUMBER[word] for word in words]
    except KeyError as error:
        word = error.args[0]
        raise DataError(f"the word {word!r} is not in the bAbI vocabulary of {len(VOCABULARY)} words") from None


@dataclass(frozen=True)
class Told:
    """Stories side by side as word numbers: plain arrays, small enough to go from process to process.

    `words` (T, B) int16, -1 after a story's end; `targets` (T, B) int16, the answer word or -1; `questions` (T, B)
    int16, the question's number in its story or -1; `lengths` and `tasks` (B,) int64.
    """

    words: np.ndarray
    targets: np.ndarray
    questions: np.ndarray
    lengths: np.ndarray
    tasks: np.ndarray

    def batch(self, scale: float = 1.0, device: str = "cpu", groups: int = 1) -> Batch:
        """One-hot words whose one is `scale`; padding is all zero and masked.

        Args:
            device: where the batch is wanted. A GPU is sent word numbers, which it makes one-hot by itself.
            groups: of stories of similar length, one after the other.
        """
        words, targets = sent(torch.from_numpy(np.stack([self.words, self.targets])), device).long()
        inputs = torch.zeros(*words.shape, len(VOCABULARY), device=device)
        inputs.scatter_(2, words.clamp(min=0).unsqueeze(-1), (words >= 0).unsqueeze(-1).float() * scale)
        info = {"tasks": torch.from_numpy(self.tasks), "questions": torch.from_numpy(self.questions.astype(np.int64))}
        return Batch(inputs, targets, targets >= 0, torch.from_numpy(self.lengths), info=info, groups=groups)


@dataclass(frozen=True)
class Encoded:
    """Stories as flat arrays: story s has the steps `starts[s]` to `starts[s + 1]`.

    `words` (int16) what goes in; `targets` (int16) the answer word or -1; `questions` (int16) the
    question's number in its story or -1; `lines` (int16) the line of the story; `needed` (bool) whether it is a
    question or supports an answer; `tasks` (int16, one per story) 1 to 20.
    """

    words: np.ndarray
    targets: np.ndarray
    questions: np.ndarray
    lines: np.ndarray
    needed: np.ndarray
    starts: np.ndarray
    tasks: np.ndarray

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    @cached_property
    def num_lines(self) -> int:
        """Lines of the longest story."""
        return int(self.lines.max()) + 1

    @cached_property
    def facts(self) -> np.ndarray:
        """Of each story, the number of lines before its first question."""
        asked = np.where(self.targets >= 0, self.lines, np.iinfo(self.lines.dtype).max)
        return np.minimum.reduceat(asked, self.starts[:-1])

    @property
    def num_questions(self) -> int:
        """Questions of all stories; a story's are numbered from 0."""
        return int((np.maximum.reduceat(self.questions, self.starts[:-1]) + 1).sum())

    def one(self, story: int) -> Encoded:
        """One of the stories, as a view."""
        first, end = self.starts[story : story + 2]
        values = {name: getattr(self, name)[first:end] for name in PER_STEP}
        return Encoded(**values, starts=np.array([0, end - first]), tasks=self.tasks[story : story + 1])

    def subset(self, stories: np.ndarray) -> Encoded:
        """Some of the stories, in the order given."""
        lengths = self.lengths[stories]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        steps = np.repeat(self.starts[stories] - starts[:-1], lengths) + np.arange(starts[-1])
        values = {name: getattr(self, name)[steps] for name in PER_STEP}
        return Encoded(**values, starts=starts, tasks=self.tasks[stories])

    def joined(self, *others: Encoded) -> Encoded:
        """These stories, then those."""
        parts = (self, *others)
        values = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*PER_STEP, "tasks")}
        starts = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
        return Encoded(**values, starts=starts)

    def batch(self, stories: np.ndarray, scale: float = 1.0, **changes: Any) -> Batch:
        """What `told` gives as a minibatch, in which a word's one is `scale`."""
        return self.told(stories, **changes).batch(scale)

    def told(
        self,
        stories: np.ndarray,
        exchange: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        left_out: np.ndarray | None = None,
        order: np.ndarray | None = None,
    ) -> Told:
        """These stories side by side, padded to the longest.

        Args:
            exchange: replaces (T, B) words, -1 for none, of stories of the given tasks, inputs and targets alike.
            left_out: (lines, B), true for lines of a story that are not told unless they are needed.
            order: (lines, B), the place at which each line is told; None as they come.
        """
        lengths = self.lengths[stories]
        steps, size = int(lengths.max()), len(stories)
        time = np.arange(steps)[:, None]
        inside = time < lengths  # (T, B)
        source = np.where(inside, self.starts[stories] + time, 0)
        if order is not None:
            places = np.where(inside, order[self.lines[source], np.arange(size)], np.inf)
            source = np.take_along_axis(source, np.argsort(places, axis=0, kind="stable"), 0)
        if left_out is not None:
            told = inside & (self.needed[source] | ~left_out[self.lines[source], np.arange(size)])
            up = np.argsort(~told, axis=0, kind="stable")  # what is told moves up
            lengths = told.sum(0)
            steps = int(lengths.max())
            source, inside = np.take_along_axis(source, up, 0)[:steps], time[:steps] < lengths
        tasks = self.tasks[stories].astype(np.int64)
        words = np.where(inside, self.words[source], 0).astype(np.int64)
        targets = np.where(inside, self.targets[source], -1).astype(np.int64)
        if exchange is not None:
            words, targets = exchange(words, tasks), exchange(targets, tasks)
        words = np.where(inside, words, -1).astype(np.int16)
        questions = np.where(inside, self.questions[source], -1).astype(np.int16)
        return Told(words, targets.astype(np.int16), questions, lengths.astype(np.int64), tasks)


def encode(stories: list[tuple[int, Story]]) -> Encoded:
    """Number the words of (task, story) pairs."""
    starts = np.concatenate([[0], np.cumsum([len(story.words) for _, story in stories])]).astype(np.int64)
    words = np.empty(starts[-1], np.int16)
    targets, questions = np.full_like(words, -1), np.full_like(words, -1)
    lines, needed = np.empty_like(words), np.empty(len(words), bool)
    for start, (_, story) in zip(starts, stories, strict=False):
        words[start : start + len(story.words)] = word_numbers(story.words)
        lines[start : start + len(story.words)] = story.sentences
        needed[start : start + len(story.words)] = [line in story.needed for line in story.sentences]
        if story.steps:
            steps = start + np.asarray(story.steps)
            targets[steps] = word_numbers(story.answers)
            questions[steps] = story.questions
    tasks = np.asarray([task for task, _ in stories], np.int16)
    return Encoded(words, targets, questions, lines, needed, starts, tasks)
