"""Tables of names: which module has the task, the recipe or the benchmark of a name.

A table is closed and written down, so a list of names imports nothing and one name imports one module. What stands in
that module registers itself as it is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from sparsam import checks

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """What is registered, by name; the names of `modules` are imported when they are asked for."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = dict(modules)
        self.known: dict[str, T] = {}

    def add(self, name: str, thing: T) -> T:
        """Make `thing` known by `name`."""
        self.known[name] = thing
        return thing

    def find(self, argument: str, name: Any) -> T:
        """What `name` stands for; a wrong one raises a ValueError about `argument` that lists the names."""
        return self[checks.one_of(argument, name, self)]

    def __getitem__(self, name: str) -> T:
        if name not in self.known and name in self.modules:
            importlib.import_module(self.modules[name])
        return self.known[name]

    def __contains__(self, name: object) -> bool:
        return name in self.known or name in self.modules

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.modules, *self.known}))

    def __len__(self) -> int:
        return len({*self.modules, *self.known})
