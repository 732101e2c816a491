"""A model by name with the settings of its constructor, as it stands in a config.

What can be set is read off the constructor of the model's class in the registry: a new argument there is a new setting
here, in config files and on the command line, and a setting that a model does not have is an error.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sparsam import checks
from sparsam.lab.argument_types import is_union
from sparsam.model_description import FIELDS, FORMER
from sparsam.models import MODELS
from sparsam.start import Start, as_values, from_values

_NOT_SET_HERE = ("input_size", "output_size", "batch_first", "device", "dtype")  # the task and the run decide them
_FIRST_FORMAT = ("hidden_size", "memory_size", "word_size", "num_heads", "k", "index", "engine")
_PLAIN = (Start, bool, int, float, str)


@dataclass(frozen=True)
class Setting:
    """One argument of a model's constructor: the plain types it takes (none: anything) and its default."""

    name: str
    kinds: tuple[type, ...]
    default: Any

    def check(self, value: Any, path: str) -> Any:
        """`value` as the constructor takes it.

        Raises ValueError naming `path` when it is of another type.
        """
        if not self.kinds or (value is None and self.default is None):
            return value
        if Start in self.kinds:
            try:
                return from_values(value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path.rpartition('.')[0]}.{error}") from error
        if float in self.kinds and isinstance(value, int) and not isinstance(value, bool):
            return value if int in self.kinds else float(value)
        if not isinstance(value, self.kinds) or (isinstance(value, bool) and bool not in self.kinds):
            raise ValueError(f"{path}: expected {' or '.join(kind.__name__ for kind in self.kinds)}, got {value!r}")
        if self.name in FIELDS and isinstance(value, int | float):
            FIELDS[self.name](path, value)
        return value


def settings_of(name: str) -> dict[str, Setting]:
    """What can be set of model `name`, in the order of its constructor."""
    return _settings(MODELS[name])  # type: ignore[arg-type]


def library_settings() -> dict[str, dict[str, Setting]]:
    """Every setting that some model of the library has, with the models that have it."""
    found: dict[str, dict[str, Setting]] = {}
    for model in MODELS:
        for key, setting in settings_of(model).items():
            found.setdefault(key, {})[model] = setting
    return found


def is_setting(key: str) -> bool:
    """Whether any model has it."""
    return any(key in settings_of(model) for model in MODELS)


@cache
def _settings(kind: Any) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for owner in kind.__mro__:
        if "__init__" not in vars(owner):
            continue
        parameters = inspect.signature(owner.__init__).parameters  # type: ignore[misc]
        try:
            hints = typing.get_type_hints(owner.__init__)  # type: ignore[misc]
        except NameError:
            hints = {}
        for key, parameter in list(parameters.items())[1:]:
            by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if by_name and key not in (*_NOT_SET_HERE, *found) and not key.startswith("_"):
                default = None if parameter.default is parameter.empty else parameter.default
                kinds = _plain_kinds(hints.get(key, Any)) or ((str,) if isinstance(default, str) else ())
                found[key] = Setting(key, kinds, default)  # of a name or an object, a config has the name
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            break  # a constructor with **kwargs hands them to the class above it
    return found


def _plain_kinds(annotation: Any) -> tuple[type, ...]:
    members = typing.get_args(annotation) if is_union(annotation) else (annotation,)
    return tuple(kind for kind in _PLAIN if kind in members)


class ModelConfig:
    """A model by name, with the arguments of its constructor as attributes.

    `ModelConfig("sam", k=8).k` is 8, `.memory_size` the constructor's default. An argument that only other models have
    is None.

    Args:
        name: the model's name.
        index_settings: settings of its index, such as `{"checks": 256}` for "kdtree".
        extra: further settings, as in earlier configs.
        settings: arguments of the model's constructor, by name.
    """

    def __init__(
        self,
        name: str = "sam",
        *,
        index_settings: dict[str, Any] | None = None,
        extra: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.name = checks.one_of("model.name", name, MODELS)
        known = settings_of(name)
        self.index_settings = dict(index_settings or {})
        for key, setting in known.items():
            super().__setattr__(key, setting.default)
        if self.index_settings and "index" not in known:
            raise ValueError(_not_there("index_settings", name))
        self.change(settings | (extra or {}))

    def change(self, settings: dict[str, Any]) -> None:
        """Set some settings, checked by name and type."""
        for key, value in settings.items():
            setattr(self, key, value)

    def __setattr__(self, key: str, value: Any) -> None:
        if key not in ("name", "index_settings"):
            known = settings_of(self.name)
            if key not in known:
                if is_setting(key):
                    raise ValueError(_not_there(key, self.name))
                raise ValueError(unknown_setting(f"model.{key}", key, [*known, "name", "index_settings"]))
            value = known[key].check(value, f"model.{key}")
        super().__setattr__(key, value)

    def __getattr__(self, name: str) -> Any:  # only asked for what is not there
        if not name.startswith("_") and is_setting(name):
            return None
        raise AttributeError(f"no model has a setting {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelConfig) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = self.to_dict()
        name = values.pop("name")
        return f"ModelConfig({name!r}, {', '.join(f'{key}={value!r}' for key, value in values.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Name and every setting that the model has, complete with defaults."""
        known = settings_of(self.name)
        values = {"name": self.name} | {key: _plain(getattr(self, key)) for key in known}
        return values | ({"index_settings": dict(self.index_settings)} if "index" in known else {})

    @classmethod
    def from_dict(cls, values: Any, path: str = "model") -> ModelConfig:
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ValueError(f"{path}: expected an object, got {values!r}")
        for key in ("index_settings", "extra"):
            if not isinstance(values.get(key, {}), dict):
                raise ValueError(f"{path}.{key}: expected an object, got {values[key]!r}")
        if not isinstance(values.get("name", ""), str):
            raise ValueError(f"{path}.name: expected str, got {values['name']!r}")
        return cls(**{key: value for key, value in values.items() if key not in FORMER})

    def renamed(self, name: str) -> dict[str, Any]:
        """The values for another model: of these settings the ones that it has."""
        known = {*settings_of(name), *(["index_settings"] if "index" in settings_of(name) else [])}
        return {key: value for key, value in self.to_dict().items() if key in known} | {"name": name}

    def beginning(self, start: str | Start) -> ModelConfig:
        """The same with other first weights; a model without a memory has none to choose."""
        changed = {"start": start} if "start" in settings_of(self.name) else {}
        return self.from_dict(self.to_dict() | changed)

    def arguments(self) -> dict[str, Any]:
        """What the constructor is called with, besides the task's widths."""
        values = {key: getattr(self, key) for key in settings_of(self.name)}
        if self.index_settings:
            values["index"] = self._index()
        return values

    def _index(self) -> Any:
        from sparsam import indexes

        kind = indexes.NAMES[checks.one_of("model.index", self.index, indexes.NAMES)]
        try:
            return kind(**self.index_settings)
        except TypeError as error:
            raise ValueError(f"model.index_settings: {error}") from error

    def build(self, input_size: int, output_size: int) -> torch.nn.Module:
        return MODELS[self.name](input_size=input_size, output_size=output_size, **self.arguments())


def _plain(value: Any) -> Any:
    return as_values(value) if isinstance(value, Start) else value


def unknown_setting(path: str, key: str, known: Iterable[str]) -> str:
    """What to say of the setting `path`, whose part `key` is none of the `known` ones."""
    names = sorted(known)
    hint = checks.did_you_mean(key, names) or f" (known: {', '.join(names)})"
    return f"{path}: unknown setting{hint}"


def _not_there(key: str, model: str) -> str:
    return f"model.{key}: {model} has no such setting (it has: {', '.join(settings_of(model))})"


def with_start(values: dict[str, Any]) -> dict[str, Any]:
    """A run's config with `model.start`, of a format that had a section `start` instead, or nothing of the kind.

    Such a config was complete when a run wrote it, and its model began plain where it says nothing.
    """
    model = values.get("model")
    if not isinstance(model, dict) or "start" in model:
        return values
    old, name = values.get("start"), model.get("name", "sam")
    if "start" not in values and not all(key in model for key in ("hidden_size", "engine")):
        return values
    values = {key: value for key, value in values.items() if key != "start"}
    if isinstance(name, str) and name in MODELS and "start" not in settings_of(name):
        if old:
            raise ValueError(f"start: {name} has no such setting")
        return values
    return {**values, "model": {**model, "start": "plain" if old is None else old}}


def without_first_format(values: dict[str, Any]) -> dict[str, Any]:
    """Drop what the first format of configs wrote and did not mean.

    It wrote the same settings for every model and passed on those that the model has; `engine` went to the models
    that read k words only. A config with all of these settings is of that format.
    """
    name = values.get("name", "sam")
    if not isinstance(name, str) or name not in MODELS or not all(key in values for key in _FIRST_FORMAT):
        return values
    known: Iterable[str] = settings_of(name)
    if "k" in known:
        return values
    dropped = {key for key in _FIRST_FORMAT if key not in known} | {"engine", "index_settings"}
    return {key: value for key, value in values.items() if key not in dropped}
