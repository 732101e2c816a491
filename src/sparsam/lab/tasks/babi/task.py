"""bAbI question answering: one model for all 20 tasks (SAM paper, section 4.4 and the supplement on Babi results).

Words go in as one-hot vectors, one per step; where an answer word is due the input is a dash and the output
is a distribution over the same words. The loss is the mean cross entropy of the answer words and nothing
else. A question is right when all its answer words are; a task's error is the share of its questions that are
wrong, and a task above 5% has failed.

A story is one sequence with all its questions (see `sparsam.lab.data.babi`). Training stories lie in buckets of
similar length; a group of stories comes from one bucket, which is drawn with the probability of all its stories
together, so every story is drawn exactly as often as without buckets. A minibatch is `groups` such groups: with one
group a task whose stories are all of one length fills minibatches alone, and is learned late or never. With
`balance="task"` (the default; "all tasks received approximately equal training resources") each task is drawn equally
often and each of its stories equally often within the task; with `balance="story"` each story is.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam import checks
from sparsam.lab.argument_types import require
from sparsam.lab.data import babi_three
from sparsam.lab.data.babi import VARIANTS, BabiFiles, open_babi, parse_stories
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.data.cache import cached
from sparsam.lab.tasks.babi.augment import ASKED_MORE, Exchange, Retelling
from sparsam.lab.tasks.babi.augment import ask_more as with_more_questions
from sparsam.lab.tasks.babi.encoded import Encoded, Told, encode, word_numbers
from sparsam.lab.tasks.task import Batch, register

__all__ = ["FAILED", "Babi", "BabiTable", "Encoded", "encode", "question_results", "word_numbers"]

# A task with a larger share of wrong questions has failed.
FAILED = 0.05


def question_results(outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """For every question of the batch its task number and whether all its answer words are right (on the CPU)."""
    wrong = (outputs.detach().argmax(-1) != batch.targets).cpu()
    step, element = batch.mask.cpu().nonzero(as_tuple=True)
    question = batch.info["questions"][step, element]
    most = int(question.max()) + 1
    key = element * most + question
    counts = torch.zeros(batch.batch_size * most, dtype=torch.int64)
    misses = counts.scatter_add(0, key, wrong[step, element].long()).view(-1, most)
    asked = counts.scatter_add(0, key, torch.ones_like(key)).view(-1, most) > 0
    tasks = batch.info["tasks"].unsqueeze(1).expand_as(asked)
    return tasks[asked], misses[asked] == 0


class BabiTable:
    """Questions, and those answered right, per task, added up over batches: the paper's table for one run."""

    def __init__(self, notes: list[str] | None = None) -> None:
        self.asked = np.zeros(21, np.int64)
        self.wrong = np.zeros(21, np.int64)
        self.notes = list(notes or [])

    def add(self, outputs: Tensor, batch: Batch) -> None:
        """Take in a batch and what a model answered to it."""
        self.count(*question_results(outputs, batch))

    def count(self, tasks: Tensor, right: Tensor) -> None:
        """Results per question: its task number and whether all its words were right."""
        self.asked += np.bincount(tasks.numpy(), minlength=21)
        self.wrong += np.bincount(tasks.numpy()[~right.numpy()], minlength=21)

    @property
    def errors(self) -> dict[int, float]:
        """Share of wrong questions of each task that was asked."""
        return {task: float(self.wrong[task] / self.asked[task]) for task in range(1, 21) if self.asked[task]}

    @property
    def mean(self) -> float:
        """Mean over tasks, as the paper's last row but one (nan before anything was asked)."""
        return float(np.mean(list(self.errors.values()))) if self.errors else float("nan")

    @property
    def failed(self) -> int:
        return sum(error > FAILED for error in self.errors.values())

    def summary(self) -> dict[str, float]:
        """Headline first: mean error over tasks, failed tasks, then each task."""
        each = {f"task_{task}": error for task, error in self.errors.items()}
        return {"error_rate": self.mean, "failed_tasks": float(self.failed), **each}


def scale_of(settings: dict[str, Any]) -> float:
    """`scale` of a task's settings, which may come from a file."""
    return checks.number_in("task.settings.scale", settings.get("scale", 1.0), 0.0, 1e6)


@register
class Babi:
    """The 20 bAbI tasks.

    Args:
        root: where the data is; see `sparsam.lab.data.locate`.
        variant: `"en-10k"` or `"en"` (1,000 questions per task).
        validation: share of each task's training stories that is held out, the same ones for the same `seed`.
        balance: `"task"` or `"story"`, what is drawn equally often in training.
        groups: of stories of similar length that a minibatch is made of, drawn independently. On a CPU each runs by
            itself and their gradients are summed; a GPU runs them as one padded batch.
        emphasis: task numbers and how many times as often their stories are drawn as `balance` would have it, for
            instance `{19: 3, 4: 0.5}`: what is solved early needs less of the time.
        spread: a bucket's longest story is at most this many times its shortest (or 4 words longer): a larger value
            mixes more tasks into a minibatch and pads more.
        scale: the value that stands for one in the one-hot words. A model's first weights are small because layers
            usually have many inputs that are not zero; a word has one, and drowns in what comes from the memory. Larger
            values are heard from the start: after 400 minibatches an SDNC of 128 units has a loss of 3.3 with 1 and of
            1.2 with 12.
        exchange: share of the training stories that are told with other names, drawn anew each time (see
            `sparsam.lab.tasks.babi.augment`); evaluation never is.
        easy_first: tasks whose training stories begin short. A level of the curriculum is then a percentage: at level h
            each line that the data does not name as supporting an answer is left out with probability 1 - h / 100.
            None: a level has no meaning.
        ask_more: tasks whose training stories get further questions at their end, which their own facts answer (see
            `sparsam.lab.tasks.babi.augment`, which knows how for task 16).
        retell: share of the training stories that are told in another way: facts in another order, maps from the other
            side, people of other tasks (see `sparsam.lab.tasks.babi.augment`).
        fill: complete task 3's training stories, where the file holds only a part of them, with stories of our own
            (`sparsam.lab.data.babi_three`). They are for training alone, and `notes` say how many there are.
        max_length: longer stories are left out of training (never out of evaluation); None keeps all.
        tasks: train and evaluate on some tasks only; None means all 20.
        device: where training minibatches are made; evaluation's are made on the CPU.
        verify: compare the files with the official ones; False allows other files in the same format.
    """

    name = "babi"

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        variant: str = "en-10k",
        validation: float = 0.05,
        seed: int = 0,
        balance: str = "task",
        groups: int = 4,
        emphasis: dict[int, float] | None = None,
        spread: float = 1.1,
        scale: float = 1.0,
        exchange: float = 0.0,
        easy_first: list[int] | None = None,
        ask_more: list[int] | None = None,
        retell: float = 0.0,
        fill: bool = False,
        max_length: int | None = None,
        tasks: list[int] | None = None,
        device: str = "cpu",
        verify: bool = True,
    ) -> None:
        require(balance in ("task", "story"), "balance", "'task' or 'story'", repr(balance))
        require(groups >= 1, "groups", "at least 1", groups)
        factors = _factors(emphasis or {})
        require(0 < validation < 1, "validation", "a share between 0 and 1", validation)
        require(spread >= 1, "spread", "at least 1", spread)
        require(scale > 0, "scale", "a positive number", scale)
        for name, share in (("exchange", exchange), ("retell", retell)):
            require(0 <= share <= 1, name, "a share from 0 to 1", share)
        for name, numbers in (("tasks", tasks), ("easy_first", easy_first)):
            known = numbers is None or (bool(numbers) and set(numbers) <= set(range(1, 21)))
            require(known, name, "numbers from 1 to 20", numbers)
        require(set(ask_more or ()) <= set(ASKED_MORE), "ask_more", f"tasks among {list(ASKED_MORE)}", ask_more)
        self.input_size = self.output_size = len(VOCABULARY)
        self.scale, self.exchange, self.device, self.groups = scale, exchange, device, groups
        self._easy_first = np.isin(np.arange(21), easy_first or [])
        self._exchange = Exchange(VOCABULARY)
        self.retell, self._retelling = retell, Retelling()
        files = open_babi(root, variant)
        self.fingerprint = files.checksum
        # What a reader of results has to know; said once as a warning, and kept with the results.
        self.notes: list[str] = files.verify() if verify else []
        train, self.test = (_encoded(files, split) for split in ("train", "test"))
        held_out = _held_out(train.tasks, validation, seed)
        if tasks is not None:
            self.test = self.test.subset(np.flatnonzero(np.isin(self.test.tasks, tasks)))
        wanted = np.isin(train.tasks, list(range(1, 21)) if tasks is None else tasks)
        kept = wanted & ~held_out
        if max_length is not None:
            too_long = int((kept & (train.lengths > max_length)).sum())
            kept &= train.lengths <= max_length
            if too_long:
                self.notes.append(f"{too_long:,} training stories of more than {max_length} words are left out")
        if not kept.any():
            raise ValueError(f"max_length leaves no training story, got {max_length}")
        self.validation = train.subset(np.flatnonzero(wanted & held_out))
        self.train = train.subset(np.flatnonzero(kept))
        if fill and tasks in (None, [3]):
            self._fill(VARIANTS[variant])
        if ask_more:
            self.train = with_more_questions(self.train, ask_more, seed)
        self._buckets = _Buckets(self.train, balance, factors, spread)
        for note in self.notes:
            warnings.warn(f"bAbI: {note}", stacklevel=2)

    def _fill(self, questions: int) -> None:
        """Training stories of our own, up to as many questions of task 3 as a complete file has."""
        there = sum(
            split.subset(np.flatnonzero(split.tasks == 3)).num_questions for split in (self.train, self.validation)
        )
        count = (questions - there) // babi_three.QUESTIONS
        if count <= 0:
            return

        def make() -> dict[str, np.ndarray]:
            return vars(encode([(3, story) for story in parse_stories(babi_three.text(count), "generated")]))

        self.train = self.train.joined(Encoded(**cached(f"babi-three-1-{count}", make)))
        self.notes.append(f"task 3: {count * babi_three.QUESTIONS:,} of {questions:,} training questions are our own")

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        """Training stories, in groups of similar length; `level` is a percentage, see `easy_first`."""
        return self.batch_of(self.draw(batch_size, generator, level))

    def batch_of(self, drawn: Told) -> Batch:
        """What was drawn, as a minibatch on the task's device."""
        return drawn.batch(self.scale, self.device, min(self.groups, len(drawn.tasks)))

    def draw(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Told:
        """The stories of a minibatch: all of `sample` but the tensors, for a process that draws for another."""
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        sizes = [len(part) for part in np.array_split(np.arange(batch_size), min(self.groups, batch_size))]
        stories = np.concatenate([self._buckets.draw(size, generator) for size in sizes])
        tasks = self.train.tasks[stories]
        left_out = None
        if level is not None and level < 100 and self._easy_first[tasks].any():
            drawn = torch.rand(self.train.num_lines, batch_size, generator=generator).numpy()
            left_out = (drawn >= level / 100) & self._easy_first[tasks]
        if self.retell:
            return self._retold(stories, left_out, generator)
        if not self.exchange:
            return self.train.told(stories, left_out=left_out)
        permutations = self._exchange.permutations(tasks, generator, self.exchange)
        tables, phrases = self._exchange.tables(tasks, permutations), Exchange.phrases(permutations)

        def change(words: np.ndarray, tasks: np.ndarray) -> np.ndarray:
            return self._exchange.look_up(words, tasks, tables, phrases)

        return self.train.told(stories, change, left_out)

    def _retold(self, stories: np.ndarray, left_out: np.ndarray | None, generator: torch.Generator) -> Told:
        """Stories of which a share is told in another way, and names are exchanged as ever in the rest."""
        tasks = self.train.tasks[stories]
        retold = torch.rand(len(stories), generator=generator).numpy() < self.retell
        order = self._retelling.order(self.train, stories, retold, generator)
        tables = self._exchange.tables(tasks, usual := self._exchange.permutations(tasks, generator, self.exchange))
        wide = self._retelling.exchange.permutations(tasks, generator)
        tables[retold] = self._retelling.exchange.tables(tasks[retold], wide[retold])
        phrases = np.where(retold[:, None], Exchange.phrases(wide), Exchange.phrases(usual))

        def change(words: np.ndarray, tasks: np.ndarray) -> np.ndarray:
            exchanged = self._exchange.look_up(words, tasks, tables, phrases)
            return self._retelling.turned(exchanged, tasks, retold, generator)

        return self.train.told(stories, change, left_out, order)

    def evaluation_batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """Every story of `"train"`, `"validation"` or `"test"` once, in batches of similar length.

        The batches come in a random order that is always the same, so the first few are a fair sample.
        """
        stories = self.split(split)
        order = np.argsort(stories.lengths, kind="stable")
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        for number in np.random.default_rng(0).permutation(len(batches)):
            yield stories.batch(batches[number], self.scale)

    def split(self, name: str) -> Encoded:
        require(name in ("train", "validation", "test"), "split", "'train', 'validation' or 'test'", repr(name))
        return getattr(self, name)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Mean cross entropy over the answer words of the batch."""
        if outputs.is_cuda:  # gathering by mask would wait for the GPU to say how many there are
            return F.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten(), ignore_index=-1)
        return F.cross_entropy(outputs[batch.mask], batch.targets[batch.mask])

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """Share of wrong questions and of wrong answer words in this batch."""
        _, right = question_results(outputs, batch)
        words = outputs.detach()[batch.mask].argmax(-1) == batch.targets[batch.mask]
        return {"error_rate": 1 - _mean(right), "word_error_rate": 1 - _mean(words)}

    def table(self) -> BabiTable:
        """An empty table that carries what a reader has to know about the training set."""
        return BabiTable(self.notes)

    @torch.no_grad()
    def evaluate(
        self, model: torch.nn.Module, split: str = "test", batch_size: int = 64, device: torch.device | str = "cpu"
    ) -> BabiTable:
        """Run `model` over all of a split and return the table of errors per task."""
        table = self.table()
        for batch in self.evaluation_batches(split, batch_size):
            batch = batch.to(device)
            outputs, _ = model(batch.inputs, lengths=batch.lengths)
            table.add(outputs, batch)
        return table


def _factors(emphasis: dict[int, float]) -> dict[int, float]:
    """Task numbers, which are strings in a config file, with factors that can be drawn by."""
    try:
        factors = {int(task): float(factor) for task, factor in emphasis.items()}
    except (AttributeError, TypeError, ValueError):
        factors = {0: 0.0}
    if not all(1 <= task <= 20 and 0 < factor < math.inf for task, factor in factors.items()):
        raise ValueError(f"emphasis: expected positive factors of tasks from 1 to 20, got {emphasis!r}")
    return factors


def _mean(flags: Tensor) -> float:
    return float(flags.float().mean())


class _Buckets:
    """Stories grouped by length and drawn by weight."""

    def __init__(self, stories: Encoded, balance: str, emphasis: dict[int, float], spread: float) -> None:
        weights = np.array([emphasis.get(task, 1.0) for task in range(21)])[stories.tasks]
        if balance == "task":
            weights /= np.bincount(stories.tasks)[stories.tasks]
        order = np.argsort(stories.lengths, kind="stable")
        lengths = stories.lengths[order]
        cuts, start = [], 0
        while start < len(order):
            cuts.append(start)
            longest = max(lengths[start] * spread, lengths[start] + 4)
            start = int(np.searchsorted(lengths, longest, side="right"))
        self.members = np.split(order, cuts[1:])
        self.cumulative = [np.cumsum(weights[members]) for members in self.members]
        self.totals = np.cumsum([cumulative[-1] for cumulative in self.cumulative])

    def draw(self, count: int, generator: torch.Generator) -> np.ndarray:
        """`count` stories of one bucket, drawn with replacement."""
        uniform = torch.rand(count + 1, generator=generator, dtype=torch.float64).numpy()
        bucket = _pick(self.totals, uniform[:1])[0]
        return self.members[bucket][_pick(self.cumulative[bucket], uniform[1:])]


def _pick(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Indexes drawn in proportion to the steps of `cumulative`."""
    return np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), len(cumulative) - 1)


def _held_out(tasks: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Mask of the validation stories: the same share (at least one story) of every task."""
    held_out = np.zeros(len(tasks), bool)
    for task in np.unique(tasks):
        stories = np.flatnonzero(tasks == task)
        chosen = np.random.default_rng([seed, int(task)]).permutation(len(stories))
        held_out[stories[chosen[: max(1, round(share * len(stories)))]]] = True
    return held_out


def _encoded(files: BabiFiles, split: str) -> Encoded:
    """All tasks of a split, from the cache where it has them."""

    def make() -> dict[str, np.ndarray]:
        stories = [(task, story) for task in range(1, 21) for story in files.stories(task, split)]
        return vars(encode(stories))

    return Encoded(**cached(f"babi-2-{files.variant}-{split}-{files.checksum[:16]}", make))
