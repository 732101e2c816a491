"""A user's own task or logger, named `module:Class` and found as Python finds modules, the current folder first.

Such a class is code, so only the user can name it, in this call: `--task` and `--logger` on the command line,
`use_task` and `use_logger` from Python. A config or a weights file that carries such a name only says which one the run
was made with; building it without the user's word is refused.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

PROTOCOL = """A task is a class with
  name, input_size, output_size                    attributes
  sample(batch_size, generator, level=None)        a sparsam.lab.tasks.Batch: inputs (T, B, I), targets, mask (T, B)
  loss(outputs, batch)                             the scalar tensor that is trained
  errors(outputs, batch)                           a dict of numbers that are reported, the headline first"""
LOGGER = "A logger has start(config, folder, step), log(kind, step, values) and close()"
_METHODS = {"task": ("sample", "loss", "errors"), "logger": ("start", "log", "close")}

_used: dict[tuple[str, str], type] = {}  # what the user has named in this process, by kind and name


class NotNamed(ValueError):
    """A file names a class of somebody's own, and the user has not named it in this call."""


def is_own(name: str) -> bool:
    return ":" in name


def use_task(name: str) -> None:
    """Import the task `module:Class`, so that configs that name it can be built in this process."""
    _use("task", name)


def use_logger(name: str) -> None:
    """Import the logger `module:Class`, likewise."""
    _use("logger", name)


def used() -> list[tuple[str, str]]:
    """What the user has named, for a process that works for this one: `use_again`."""
    return list(_used)


def use_again(names: Iterable[tuple[str, str]]) -> None:
    for what, name in names:
        _use(what, name)


def _use(what: str, name: str) -> None:
    if (what, name) in _used:
        return
    kind = _load_class(name, what)
    missing = [f"{key}()" for key in _METHODS[what] if not callable(inspect.getattr_static(kind, key, None))]
    if missing:
        raise ValueError(f"{what} {name!r} lacks {', '.join(missing)}. {PROTOCOL if what == 'task' else LOGGER}")
    _used[what, name] = kind


def _named(what: str, name: str) -> type:
    """The class that the user has named so; a name that only a file gives raises NotNamed and imports nothing."""
    if (what, name) not in _used:
        other = ", or continue without it: --set loggers=[]" if what == "logger" else ""
        raise NotNamed(
            f"{what}: {name!r} is custom code, which a file cannot name; if you trust it, name it "
            f"yourself: --{what} {name}{other} (from Python: sparsam.lab.training.user_classes.use_{what}({name!r}))"
        )
    return _used[what, name]


def _load_class(name: str, what: str) -> type:
    """The class behind `module:Class`; raises ValueError saying which part of the name is not there."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")) or not attribute.isidentifier():
        raise ValueError(f"{what}: expected module:Class, got {name!r}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(f"{what}: {module_name} needs {error.name}, which is not installed") from error
        raise ValueError(f"{what}: no module named {module_name!r} (searched from {here})") from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, SyntaxError) else f" ({place.filename}, line {place.lineno})"
        raise ValueError(f"{what}: {module_name} cannot be imported: {type(error).__name__}: {error}{where}") from error
    kind = getattr(module, attribute, None)
    if not inspect.isclass(kind):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise ValueError(f"{what}: {module_name} has no class {attribute!r} (it has: {', '.join(classes) or 'none'})")
    return kind


def own_logger(name: str) -> Any:
    """A logger that the user has named."""
    return _named("logger", name)()


def own_task(name: str, settings: dict[str, Any]) -> Any:
    """A task that the user has named, with all that the trainer will ask of it."""
    kind = _named("task", name)
    try:
        task = kind(**settings)
    except TypeError as error:
        raise ValueError(f"task {name!r}: {error}") from error
    missing = [key for key in ("name", "input_size", "output_size") if not hasattr(task, key)]
    if missing:
        raise ValueError(f"task {name!r} lacks {', '.join(missing)}. {PROTOCOL}")
    for key in ("input_size", "output_size"):
        if not isinstance(getattr(task, key), int) or getattr(task, key) < 1:
            raise ValueError(f"task {name!r}: {key}: expected a positive int, got {getattr(task, key)!r}. {PROTOCOL}")
    return task


def check_answers(name: str, outputs: Tensor, loss: Any, errors: Any) -> None:
    """What a task made of a first minibatch; raises ValueError when the trainer could not use it."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise ValueError(
            f"task {name!r}: loss: expected a scalar tensor of the outputs, got {_short(loss)}. {PROTOCOL}"
        )
    plain = isinstance(errors, dict) and bool(errors)
    if not plain or not all(isinstance(value, int | float) for value in errors.values()):
        raise ValueError(f"task {name!r}: errors: expected a dict of numbers, got {_short(errors)}. {PROTOCOL}")


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}" + ("" if value.requires_grad else " without a gradient")
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
