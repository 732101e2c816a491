"""A user's own task or logger, named `module:Class` and found as Python finds modules, the current folder first."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any

import torch
from torch import Tensor

PROTOCOL = """A task is a class with
  name, input_size, output_size                    attributes
  sample(batch_size, generator, level=None)        a sparsam.tasks.Batch: inputs (T, B, I), targets, mask (T, B)
  loss(outputs, batch)                             the scalar tensor that is trained
  errors(outputs, batch)                           a dict of numbers that are reported, the headline first"""


def is_own(name: str) -> bool:
    return ":" in name


def load_class(name: str, what: str) -> type:
    """The class behind `module:Class`; raises ValueError saying which part of the name is not there."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ValueError(f"{what}: expected module:Class, got {name!r}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not module_name.startswith(error.name):
            raise ValueError(f"{what}: {module_name} needs {error.name}, which is not installed") from error
        raise ValueError(f"{what}: there is no module {module_name!r} (searched from {here})") from error
    except Exception as error:
        raise ValueError(f"{what}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    kind = getattr(module, attribute, None)
    if not inspect.isclass(kind):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise ValueError(f"{what}: {module_name} has no class {attribute!r} (it has: {', '.join(classes) or 'none'})")
    return kind


def own_task(name: str, settings: dict[str, Any]) -> Any:
    """A task of the user's own, with all that the trainer will ask of it."""
    kind = load_class(name, "task")
    try:
        task = kind(**settings)
    except TypeError as error:
        raise ValueError(f"task {name!r}: {error}") from error
    missing = [key for key in ("name", "input_size", "output_size") if not hasattr(task, key)]
    missing += [f"{key}()" for key in ("sample", "loss", "errors") if not callable(getattr(task, key, None))]
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
