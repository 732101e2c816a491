"""Experiments as short declarations: each function returns an `Experiment` of complete run configs."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from sparsam import checks
from sparsam.experiments.experiment import Experiment

__all__ = ["RECIPES", "Experiment", "recipe"]

RECIPES: dict[str, str] = {
    "figure2": "sparsam.experiments.figure2:figure2",
    "figure3": "sparsam.experiments.figure3:figure3",
    "extrapolation": "sparsam.experiments.extrapolation:extrapolation",
    "copy-lengths": "sparsam.experiments.copy_lengths:copy_lengths",
    "babi": "sparsam.experiments.babi:babi",
    "omniglot": "sparsam.experiments.omniglot:omniglot",
    "omniglot-pixels": "sparsam.experiments.omniglot_pixels:omniglot_pixels",
    "mqar": "sparsam.experiments.mqar:mqar",
    "induction": "sparsam.experiments.long_copies:induction",
    "selective-copy": "sparsam.experiments.long_copies:selective_copy",
    "word-problem": "sparsam.experiments.word_problem:word_problem",
    "demo": "sparsam.experiments.demo:demo",
}


def recipe(name: str) -> Callable[..., Experiment]:
    """The recipe of that name; a wrong name raises a ValueError that suggests the right one."""
    module, _, function = RECIPES[checks.one_of("experiment", name, RECIPES)].partition(":")
    return getattr(importlib.import_module(module), function)
