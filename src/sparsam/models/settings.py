"""Settings of a memory as attributes of its model: one truth, kept in the memory's description.

What a user sets is honoured (`model.delta = 0.01` makes a new description) or refused (the width of a word, which the
parameters depend on, cannot be changed).
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any


def setting(path: str) -> Any:
    """A read-only setting."""
    return property(operator.attrgetter(path), doc=f"`{path}`, which cannot be changed after construction.")


def sparse_setting(field: str, resolve: Callable[[Any], Any] = lambda value: value) -> Any:
    """A field of a sparse memory's description that can be read and set."""

    def change(model: Any, value: Any) -> None:
        model.memory = model.memory.with_sizes(dataclasses.replace(model.memory.sizes, **{field: resolve(value)}))

    return property(operator.attrgetter(f"memory.sizes.{field}"), change, doc=f"`{field}` of the memory's description.")
