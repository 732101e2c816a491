"""Checks of plain arguments by their annotations: an int is an int, a flag a flag, and the error names the argument.

For constructors with many plain arguments (tasks, configs), where a check of each would be longer than the rest.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable
from typing import Any

_CALLED = {bool: "True or False", int: "an int", float: "a number", str: "a string", dict: "a dict", list: "a list"}


def check(name: str, value: Any, hint: Any) -> None:
    """Complain when `value` is not what a plain annotation says; others (tensors, protocols) are not looked at."""
    kinds = typing.get_args(hint) if is_union(hint) else (hint,)
    if value is None and type(None) in kinds:
        return
    wanted = [typing.get_origin(kind) or kind for kind in kinds if kind is not type(None)]
    if not all(kind in _CALLED or dataclasses.is_dataclass(kind) for kind in wanted):
        return
    if not any(_is(value, kind) for kind in wanted):
        expected = " or ".join(_CALLED.get(kind, f"a {kind.__name__}") for kind in wanted)
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__} {value!r}")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name}: expected a number, got nan")
    if isinstance(value, list):
        for place, (entry, kind) in enumerate(zip(value, typing.get_args(kinds[0]) * len(value))):
            check(f"{name}[{place}]", entry, kind)


def require(holds: bool, name: str, expected: str, got: Any) -> None:
    """Complain about an argument unless what is asked of it `holds`."""
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {got}")


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


@functools.cache
def _hints(call: Any) -> dict[str, Any]:
    return typing.get_type_hints(call)


def checked(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with its plain arguments checked."""
    signature = inspect.signature(call)

    @functools.wraps(call)
    def with_checks(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in _hints(call):
                check(name, value, _hints(call)[name])
        return call(*args, **kwargs)

    return with_checks


def check_fields(config: Any, prefix: str = "") -> None:
    """Complain about a field of a dataclass that is not what its annotation says."""
    kind: Any = type(config)
    for entry in dataclasses.fields(config):
        check(f"{prefix}{entry.name}", getattr(config, entry.name), _hints(kind)[entry.name])
