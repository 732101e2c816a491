"""Frozen records that nobody takes apart.

A record is written and used like a frozen dataclass: its fields are the annotations of its classes, its constructor
takes them. It is not one, on purpose: Fabric, FSDP and TensorDict walk into dataclasses and convert the tensors that
they find there. Of a state those are half: the words are in a buffer of the engine, so such a copy would be wrong.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[type], type]:
        """For type checkers alone; `typing` has it from Python 3.11 on."""
        return lambda cls: cls


R = TypeVar("R", bound="Record")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Record:
    """Base of records. `dataclasses.field(default=..., kw_only=True)` is understood."""

    field_names: ClassVar[tuple[str, ...]] = ()
    _positional: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        positional, keywords, defaults = list(cls._positional), list(cls.field_names), dict(cls._defaults)
        keywords = [name for name in keywords if name not in positional]
        for name, kind in inspect.get_annotations(cls).items():
            if "ClassVar" in str(kind):
                continue
            if name in keywords or name in positional:
                raise TypeError(f"{cls.__name__}: expected unique names of fields, got {name} twice")
            default, by_keyword = cls.__dict__.get(name, dataclasses.MISSING), False
            if isinstance(default, dataclasses.Field):
                by_keyword, default = default.kw_only is True, default.default
                delattr(cls, name)
                if default is not dataclasses.MISSING:
                    setattr(cls, name, default)
            (keywords if by_keyword else positional).append(name)
            if default is not dataclasses.MISSING:
                defaults[name] = default
        cls._positional, cls._defaults = tuple(positional), defaults
        cls.field_names = (*positional, *keywords)

    def __init__(self, *values: Any, **named: Any) -> None:
        kind = type(self)
        if "__dataclass_fields__" in kind.__dict__:
            raise TypeError(f"{kind.__name__}: expected a class without @dataclass")
        given = {**kind._defaults, **dict(zip(kind._positional, values)), **named}
        if len(values) > len(kind._positional) or given.keys() != set(kind.field_names):
            wanted = ", ".join(kind.field_names)
            raise TypeError(f"{kind.__name__}: expected the fields {wanted}, got {len(values)} values and {[*named]}")
        for name in kind.field_names:
            object.__setattr__(self, name, given[name])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: states do not change; use with_fields({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: a field cannot be deleted")

    def with_fields(self: R, **fields: Any) -> R:
        """A record with other values in some fields."""
        kind = type(self)
        if torch.compiler.is_compiling():  # not every torch can trace what follows
            return kind(**{name: fields.get(name, getattr(self, name)) for name in kind.field_names})
        if not fields.keys() <= set(kind.field_names):
            raise TypeError(f"{kind.__name__}: expected the fields {', '.join(kind.field_names)}, got {[*fields]}")
        made = object.__new__(kind)
        made.__dict__.update(self.__dict__, **fields)
        return made

    __replace__ = with_fields  # copy.replace
