"""Sequences of each task with words for a person: which sentence, pair, item or image a step belongs to.

A task of the user's own is shown too: by the numbers of its steps, or by what its method `describe(batch, element)`
says (it returns a `Steps`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsam.lab.tasks.task import Batch
from sparsam.lab.viewer.episode import Steps

__all__ = ["STORIES", "describe", "draw", "story_batch"]

# Stories to show where no bAbI is at hand, in bAbI's format.
STORIES = (
    "1 Mary went to the kitchen.\n2 John moved to the garden.\n3 Mary got the milk there.\n"
    "4 Where is the milk? \tkitchen\t1 3\n5 Sandra travelled to the hallway.\n6 Mary journeyed to the office.\n"
    "7 Where is the milk? \toffice\t3 6\n8 Mary dropped the milk.\n9 John went to the office.\n"
    "10 Mary went back to the bathroom.\n11 Where is the milk? \toffice\t8 6\n",
    "1 Sheep are afraid of wolves.\n2 Cats are afraid of mice.\n3 Wolves are afraid of cats.\n"
    "4 Mice are afraid of sheep.\n"
    "5 Gertrude is a cat.\n6 Winona is a wolf.\n7 Emily is a sheep.\n8 Jessica is a mouse.\n"
    "9 What is Gertrude afraid of? \tmouse\t5 2\n10 What is Emily afraid of? \twolf\t7 1\n"
    "11 What is Winona afraid of? \tcat\t6 3\n12 What is Jessica afraid of? \tsheep\t8 4\n",
    "1 The office is north of the kitchen.\n2 The garden is west of the bedroom.\n3 The office is west of the garden.\n"
    "4 The office is south of the bathroom.\n5 The bedroom is north of the hallway.\n"
    "6 How do you go from the garden to the kitchen? \tw,s\t3 1\n",
)


def draw(task: Any, size: int | None, seed: int) -> Batch:
    """A new sequence of a task."""
    generator = torch.Generator().manual_seed(seed)
    if size is not None:
        if not hasattr(task, "sample_size"):
            raise ValueError(f"size: expected a task whose sequences have a size, got {task.name}")
        return task.sample_size(1, generator, size)
    return task.sample(1, generator)


def describe(task: Any, batch: Batch, element: int = 0) -> Steps:
    """What the steps of one element of a batch are."""
    if hasattr(task, "describe"):
        return task.describe(batch, element)
    x = batch.inputs[:, element].cpu()
    known = {"copy": _copy, "recall": _recall, "sort": _sort, "omniglot": _omniglot}
    if task.name in known:
        return known[task.name](task, batch, x, element)
    length = len(x)
    return Steps([str(t) for t in range(length)], [f"step {t}" for t in range(length)], list(range(length)))


def story_batch(text: str, scale: float = 1.0) -> tuple[Batch, Steps]:
    """A story in bAbI's format, or plain lines with questions, as a batch of one; unknown words raise ValueError."""
    from sparsam.lab.data.babi import Story, words_of
    from sparsam.lab.data.babi_official import DASH, VOCABULARY
    from sparsam.lab.tasks.babi.encoded import encode

    story, lines = Story(), []
    for line in filter(None, map(str.strip, text.splitlines())):
        number, _, rest = line.partition(" ")
        told, _, columns = (rest if number.isdigit() else line).partition("\t")
        question, mark, dashes = told.partition("?")
        words = words_of(question.strip().rstrip("."))
        story.add([*words, "?" if mark else "."])
        if mark:
            answers = columns.partition("\t")[0].lower().split(",") if columns else [DASH] * max(1, dashes.count("-"))
            story.ask(answers)
            lines.append(f"{question.strip()}?" + (f"  ({', '.join(answers)})" if columns else ""))
        else:
            lines.append(told.strip())
    batch = encode([(0, story)]).batch(np.array([0]), scale)
    batch.targets[batch.targets == VOCABULARY.index(DASH)] = -1  # asked without telling the answer
    steps = Steps(story.words, lines, story.sentences, names=list(VOCABULARY), show_inputs=False)
    return batch, steps


def _bits(values: Tensor) -> str:
    return "".join("1" if value > 0.5 else "0" for value in values.tolist())


def _copy(task: Any, batch: Batch, x: Tensor, element: int) -> Steps:
    items = (len(x) - 1) // 2
    labels = [*(f"item {n + 1}" for n in range(items)), "delimiter", *(f"answer {n + 1}" for n in range(items))]
    groups = [f"item {n + 1}: {_bits(x[n, : task.bits])}" for n in range(items)]
    return Steps(labels, [*groups, "delimiter", "answers"], [*range(items), items, *[items + 1] * (len(x) - items - 1)])


def _sort(task: Any, batch: Batch, x: Tensor, element: int) -> Steps:
    keys = int(x[:, task.bits + 1].argmax())
    groups = [f"key {n + 1}: {_bits(x[n, : task.bits])}, priority {x[n, task.bits]:+.2f}" for n in range(keys)]
    labels = [f"key {n + 1}" for n in range(keys)] + ["delimiter"] + [f"rank {n + 1}" for n in range(len(x) - keys - 1)]
    return Steps(labels, [*groups, "delimiter", "answers"], [*range(keys), keys, *[keys + 1] * (len(x) - keys - 1)])


def _recall(task: Any, batch: Batch, x: Tensor, element: int) -> Steps:
    bits, pairs = task.bits, int(batch.level or 0)
    labels, groups, group_of = [], [], []
    if task.paired:
        for n in range(len(x)):
            key, value = _bits(x[n, :bits]), _bits(x[n, bits : 2 * bits])
            labels.append(f"pair {n + 1}" if n < pairs else f"cue {n - pairs + 1}")
            groups.append(f"pair {n + 1}: {key} -> {value}" if n < pairs else f"cue {key}")
            group_of.append(n)
        return Steps(labels, groups, group_of)
    length = task.item_length
    for n in range(len(x) // (2 * length)):
        key, value = (
            " ".join(_bits(x[(2 * n + part) * length + step, :bits]) for step in range(length)) for part in (0, 1)
        )
        told = n < pairs
        groups.append(f"pair {n + 1}: {key} -> {value}" if told else f"cue {key}, then its answer")
        names = ("key", "value") if told else ("cue", "answer")
        labels += [f"{name} {n + 1 if told else n - pairs + 1}" for name in names for _ in range(length)]
        group_of += [n] * 2 * length
    return Steps(labels, groups, group_of)


def _omniglot(task: Any, batch: Batch, x: Tensor, element: int) -> Steps:
    labels = batch.targets[:, element].tolist()
    times = batch.info["presentation"][:, element].tolist()
    groups = [f"label {label}, presentation {time + 1}" for label, time in zip(labels, times)]
    width = task.input_size - task.labels
    side = int(np.sqrt(width))
    images = None
    if side * side == width:
        shown = x[:, :width].reshape(len(x), side, side).numpy()
        images = (shown - shown.min()) / max(float(np.ptp(shown)), 1e-9)
    return Steps([str(label) for label in labels], groups, list(range(len(x))), images=images, show_inputs=False)


def read_story(path: Path) -> list[str]:
    """The stories of a file: a new one begins at the id 1 or after a blank line."""
    from sparsam.lab.data.babi import story_lines

    stories: list[list[str]] = [[]]
    for line in story_lines(path):
        if (not line.strip() or line.startswith("1 ")) and stories[-1]:
            stories.append([])
        if line.strip():
            stories[-1].append(line)
    return ["\n".join(story) for story in stories if story]
