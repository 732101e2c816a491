"""The paper's tasks and the recall tests of today, by name. A task is imported when it is first asked for."""

from __future__ import annotations

import importlib
from typing import Any

from sparsam import checks
from sparsam.tasks.task import Batch, BitTask, FiniteTask, Task

__all__ = ["TASKS", "Batch", "BitTask", "FiniteTask", "Task", "build", "task_class"]

TASKS: dict[str, str] = {
    "copy": "sparsam.tasks.copy:Copy",
    "recall": "sparsam.tasks.recall:Recall",
    "sort": "sparsam.tasks.sort:Sort",
    "babi": "sparsam.tasks.babi:Babi",
    "omniglot": "sparsam.tasks.omniglot:Omniglot",
    "omniglot_pixels": "sparsam.tasks.omniglot_pixels:OmniglotPixels",
    "mqar": "sparsam.tasks.mqar:Mqar",
    "induction": "sparsam.tasks.induction:Induction",
    "selective_copy": "sparsam.tasks.selective_copy:SelectiveCopy",
    "word_problem": "sparsam.tasks.word_problem:WordProblem",
    "token_mixture": "sparsam.tasks.token_mixture:TokenMixture",
}


def task_class(name: str) -> type:
    """The class behind a name; a wrong name raises a ValueError that suggests the right one."""
    module, _, attribute = TASKS[checks.one_of("task", name, TASKS)].partition(":")
    return getattr(importlib.import_module(module), attribute)


def build(name: str, **settings: Any) -> Task:
    """Make a task by name: `build("recall", min_size=3, max_size=6)`."""
    kind = task_class(name)
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"task {name!r}: {error}") from error
