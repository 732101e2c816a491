"""Experiments as short declarations: each function returns an `Experiment` of complete run configs."""

from __future__ import annotations

from collections.abc import Callable

from sparsam.lab.recipes.experiment import RECIPES, Experiment, register

__all__ = ["RECIPES", "Experiment", "recipe", "register"]


def recipe(name: str) -> Callable[..., Experiment]:
    """The recipe of that name; a wrong name raises a ValueError that suggests the right one."""
    return RECIPES.find("experiment", name)
