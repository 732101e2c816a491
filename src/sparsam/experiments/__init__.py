"""Experiments as short declarations: each function returns an :class:`Experiment` of complete run configs."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable

from sparsam.experiments.experiment import Experiment

__all__ = ["RECIPES", "Experiment", "recipe"]

RECIPES: dict[str, str] = {
    "figure2": "sparsam.experiments.figure2:figure2",
    "figure3": "sparsam.experiments.figure3:figure3",
    "extrapolation": "sparsam.experiments.extrapolation:extrapolation",
    "babi": "sparsam.experiments.babi:babi",
    "omniglot": "sparsam.experiments.omniglot:omniglot",
    "omniglot-pixels": "sparsam.experiments.omniglot_pixels:omniglot_pixels",
    "mqar": "sparsam.experiments.mqar:mqar",
    "word-problem": "sparsam.experiments.word_problem:word_problem",
    "demo": "sparsam.experiments.demo:demo",
}


def recipe(name: str) -> Callable[..., Experiment]:
    """The recipe of that name; a wrong name raises a ValueError that suggests the right one."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown experiment {name!r}{hint} (experiments: {', '.join(RECIPES)})")
    module, _, function = RECIPES[name].partition(":")
    return getattr(importlib.import_module(module), function)
