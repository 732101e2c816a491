"""Things by name, registered where they are defined: tasks, recipes, benchmarks.

A registry belongs to a package, whose modules are imported only when they are needed: for one name the module of that
name, for a list of all names every module.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from sparsam import checks

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping that its package's modules fill."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.known: dict[str, T] = {}
        self.complete = False

    def add(self, name: str, thing: T) -> T:
        """Make `thing` known by `name`."""
        self.known[name] = thing
        return thing

    def find(self, argument: str, name: Any) -> T:
        """What `name` stands for; a wrong one raises a ValueError about `argument` that lists the names."""
        if not isinstance(name, str) or name not in self:
            checks.one_of(argument, name, self)
        return self[name]

    def import_all(self) -> None:
        """Import the package's modules, once."""
        if not self.complete:
            for found in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{found.name}")
            self.complete = True

    def __getitem__(self, name: str) -> T:
        module = name.replace("-", "_")
        if name not in self.known and module.isidentifier():
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(f"{self.package}.{module}")
        if name not in self.known:
            self.import_all()
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        self.import_all()
        return iter(sorted(self.known))

    def __len__(self) -> int:
        self.import_all()
        return len(self.known)
