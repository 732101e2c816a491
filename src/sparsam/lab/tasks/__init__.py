"""The paper's tasks, by name."""

from __future__ import annotations

from typing import Any

from sparsam.lab.tasks.task import TASKS, Batch, BitTask, FiniteTask, Task, register

__all__ = ["TASKS", "Batch", "BitTask", "FiniteTask", "Task", "build", "register", "task_class"]


def task_class(name: str) -> type:
    """The class behind a name; a wrong name raises a ValueError that suggests the right one."""
    return TASKS.find("task", name)


def build(name: str, **settings: Any) -> Task:
    """Make a task by name: `build("recall", min_size=3, max_size=6)`."""
    kind = task_class(name)
    try:
        return kind(**settings)
    except TypeError as error:
        raise ValueError(f"task {name!r}: {error}") from error
