"""What a weights file says of its model: a closed, versioned description, checked field by field.

    {"version": 1, "name": "sam", "arguments": {"input_size": 8, "output_size": 8, "index": {"index": "LSH", ...}, ...}}

The name and the arguments are looked up in tables: what is not in one is refused, with the nearest name that is. A
description selects and sets numbers within bounds; nothing in it is imported, called or looked up as an attribute.
`device` and `dtype` are about where a model runs and no part of it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sparsam import checks, engines, indexes, start
from sparsam.controllers import KINDS
from sparsam.memories.addressing import SIMILARITIES
from sparsam.memories.description import ALLOCATIONS
from sparsam.models import MODELS

VERSION = 1
NOT_DESCRIBED = ("device", "dtype")
FORMER = ("compile_step",)  # arguments that changed nothing of a model, in files of earlier versions
LARGEST_TEXT = 1 << 20  # characters of a description
MOST_HELD = 1 << 28  # numbers of one batch element, for what comes from a file
DEEPEST = 32  # brackets within brackets

Check = Callable[[str, Any], Any]  # a field's path and the value in the file to the constructor's argument


def whole(low: int, high: int) -> Check:
    def check(path: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{path}: expected an int in {low}..{high}, got {short(value)}")
        return value

    return check


def number(low: float, high: float) -> Check:
    def check(path: str, value: Any) -> float:
        right = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not right or not math.isfinite(value):
            raise ValueError(f"{path}: expected a number in {low:g}..{high:g}, got {short(value)}")
        return float(value)

    return check


def optional(inner: Check) -> Check:
    return lambda path, value: None if value is None else inner(path, value)


def flag(path: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{path}: expected true or false, got {short(value)}")
    return value


def name_of(choices: Callable[[], Iterable[str]]) -> Check:
    def check(path: str, value: Any) -> str:
        names = list(choices())
        if not isinstance(value, str) or value not in names:
            hint = checks.did_you_mean(value, names)
            raise ValueError(f"{path}: expected one of {', '.join(names)}, got {short(value)}{hint}")
        return value

    return check


def index_of(path: str, value: Any, inner: bool = False) -> Any:
    """An index by name, or {"index": its class, "settings": {...}}; one inside `Auto` goes no deeper."""
    if isinstance(value, str):
        return indexes.NAMES[name_of(lambda: indexes.NAMES)(path, value)]()
    entries = members(path, value, ("index", "settings"))
    classes = {kind.__name__: kind for kind in indexes.NAMES.values() if not (inner and kind is indexes.Auto)}
    kind = classes[name_of(lambda: classes)(f"{path}.index", entries.get("index"))]
    known = [entry.name for entry in dataclasses.fields(kind)]
    settings = members(f"{path}.settings", entries.get("settings", {}), known)
    made = {key: index_of(f"{path}.{key}", entry, True) if key == "index" else entry for key, entry in settings.items()}
    try:
        return kind(**made)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}.settings.{error}") from error


def start_of(path: str, value: Any) -> Any:
    try:
        return start.from_values(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


# Every argument of a model's constructor that belongs to a description. A new one is a line here.
FIELDS: dict[str, Check] = {
    "input_size": whole(1, 2**20),
    "output_size": whole(1, 2**20),
    "hidden_size": whole(1, 2**16),
    "memory_size": whole(1, indexes.LARGEST),
    "word_size": whole(1, 2**16),
    "num_heads": whole(1, 2**10),
    "k": whole(1, 2**16),
    "k_links": whole(1, 2**12),
    "num_layers": whole(1, 256),
    "index": index_of,
    "similarity": name_of(lambda: SIMILARITIES),
    "allocation": name_of(lambda: ALLOCATIONS),
    "controller": name_of(lambda: [name for name in KINDS if name not in ("own", "layer_norm_lstm")]),
    "engine": name_of(engines.names),
    "start": start_of,
    "delta": number(0.0, 1e6),
    "discount": number(0.0, 1.0),
    "dropout": number(0.0, 1.0),
    "bypass_dropout": number(0.0, 1.0),
    "backward_clip": optional(number(0.0, 1e9)),
    "batch_first": flag,
    "masked": flag,
    "layer_norm": flag,
    "link_gradients": flag,
    "erase": flag,
    "deallocate": flag,
}


@dataclass(frozen=True)
class InputLayer:
    """A kind of module before a model, made known by the package that has it: `register_input_layer`.

    Args:
        fields: the arguments of its constructor and how each is checked.
        layer: its class; an instance has its arguments as the dict `settings`.
        join: makes one module of the layer and the model; that module has them as `input_layer` and `model`.
    """

    fields: Mapping[str, Check]
    layer: type[nn.Module]
    join: Callable[[nn.Module, nn.Module], nn.Module]


INPUT_LAYERS: dict[str, Callable[[], InputLayer]] = {}


def register_input_layer(name: str, kind: Callable[[], InputLayer]) -> None:
    """Make a kind known by its name; `kind` is called when a description has it, so that it can be imported then."""
    INPUT_LAYERS[name] = kind


@dataclass(frozen=True)
class Description:
    """A model by name with the arguments of its constructor, and the input layer before it if there is one."""

    name: str
    arguments: dict[str, Any]
    input_layer: tuple[str, dict[str, Any]] | None = None

    def build(self, **changes: Any) -> nn.Module:
        model: nn.Module = MODELS[self.name](**{**self.arguments, **changes})
        if self.input_layer is None:
            return model
        kind = INPUT_LAYERS[self.input_layer[0]]()
        return kind.join(kind.layer(**self.input_layer[1]), model)

    def without_weights(self) -> nn.Module:
        """The model's shapes, for which no memory is taken."""
        with torch.device("meta"):
            return self.build()

    def to_json(self) -> str:
        values: dict[str, Any] = {"version": VERSION, "name": self.name}
        values["arguments"] = {key: _plain(value) for key, value in self.arguments.items()}
        if self.input_layer is not None:
            values["input_layer"] = dict(zip(("name", "arguments"), self.input_layer))
        return json.dumps(values)


def check_room(model: Any) -> None:
    """Raises ValueError for a model of which one state would fill a machine; no tensor of its file shows that."""
    memory = model.memory
    if memory is None:
        return
    held = sum(math.prod(shape) for shape in memory.shapes().values())
    if memory.sizes is not None and model.engine == "reference":  # the other engines keep what is touched
        held += memory.rows * memory.width
    if held > MOST_HELD:
        raise ValueError(f"memory_size: expected at most {MOST_HELD:,} numbers in a state, got {held:,}")


def arguments_of(name: str) -> tuple[str, ...]:
    return tuple(key for key in inspect.signature(MODELS[name]).parameters if key in FIELDS)


def read(text: str, path: str) -> Description:
    """A description from JSON; raises ValueError naming the field below `path`."""
    values = members(path, parsed(text, path), ("version", "name", "arguments", "input_layer"))
    version = values.get("version", VERSION)
    if isinstance(version, bool) or version != VERSION:
        raise ValueError(f"{path}.version: expected {VERSION}, got {short(version)}")
    name = name_of(lambda: MODELS)(f"{path}.name", values.get("name"))
    return of_values(name, values.get("arguments"), f"{path}.arguments", _read_layer(values, path))


def of_values(name: str, arguments: Any, path: str, layer: tuple[str, dict[str, Any]] | None = None) -> Description:
    """A description of model `name` from arguments as a file has them."""
    known = arguments_of(name)
    given = members(path, arguments, (*known, *NOT_DESCRIBED, *FORMER))
    for key in ("input_size", "output_size"):
        if key not in given:
            raise ValueError(f"{path}.{key}: expected an int, got none")
    return Description(name, {key: FIELDS[key](f"{path}.{key}", given[key]) for key in known if key in given}, layer)


def _read_layer(values: dict[str, Any], path: str) -> tuple[str, dict[str, Any]] | None:
    if values.get("input_layer") is None:
        return None
    path = f"{path}.input_layer"
    entries = members(path, values["input_layer"], ("name", "arguments"))
    name = entries.get("name")
    if isinstance(name, str) and name not in INPUT_LAYERS:
        known = f" (known: {', '.join(INPUT_LAYERS)})" if INPUT_LAYERS else ""
        raise ValueError(
            f"{path}.name: the model stands behind an input layer of kind {short(name)}; import the package that has "
            f"it first{known}"
        )
    kind = INPUT_LAYERS[name_of(lambda: INPUT_LAYERS)(f"{path}.name", name)]()
    given = members(f"{path}.arguments", entries.get("arguments"), kind.fields)
    missing = [key for key in kind.fields if key not in given]
    if missing:
        raise ValueError(f"{path}.arguments.{missing[0]}: expected a value, got none")
    return str(name), {key: check(f"{path}.arguments.{key}", given[key]) for key, check in kind.fields.items()}


def describe(model: nn.Module) -> Description:
    """The description of a live model; raises ValueError for one that a file cannot describe."""
    inner = model._modules.get("model")
    layer = model._modules.get("input_layer")
    if isinstance(inner, nn.Module) and isinstance(layer, nn.Module):
        known = {kind().layer: name for name, kind in INPUT_LAYERS.items()}
        if type(layer) not in known:
            raise ValueError(f"model: expected an input layer that is registered, got a {type(layer).__name__}")
        settings: Any = layer.settings
        return dataclasses.replace(describe(inner), input_layer=(known[type(layer)], dict(settings)))
    name = getattr(model, "name", None)
    if name not in MODELS or not isinstance(model, MODELS[name]):
        raise ValueError(f"model: expected one of {', '.join(MODELS)}, got a {type(model).__name__}")
    described = Description(name, _arguments(model, name))
    wanted = {key: value.shape for key, value in described.without_weights().state_dict().items()}
    if {key: value.shape for key, value in model.state_dict().items()} != wanted:
        raise ValueError("model: expected layers as its constructor makes them, got others, which no file can describe")
    return described


def _arguments(model: Any, name: str) -> dict[str, Any]:
    kind = model.controller_kind
    memory = {} if model.memory is None else model.memory.options()
    used = {**memory, **kind.options, **getattr(model.output, "options", {})}
    used["controller"] = "lstm" if used.get("layer_norm") else kind.name
    defaults = {key: entry.default for key, entry in inspect.signature(MODELS[name]).parameters.items()}
    found = {key: used.get(key, getattr(model, key, defaults[key])) for key in arguments_of(name)}
    return {key: FIELDS[key](f"model.{key}", _plain(value)) for key, value in found.items()}


def _plain(value: Any) -> Any:
    """An argument as JSON has it."""
    if isinstance(value, start.Start):
        return start.as_values(value)
    if not isinstance(value, indexes.Index):
        return value
    settings = {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    return {"index": type(value).__name__, "settings": {key: v for key, v in settings.items() if v is not None}}


def parsed(text: str | bytes, path: str) -> Any:
    """JSON from a stranger; raises ValueError naming `path`, whatever is wrong with it."""
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"{path}: expected at most {LARGEST_TEXT:,} characters, got {len(text):,}")
    try:
        found = json.loads(text, parse_int=_whole_number)
        if _is_deep(found):
            raise RecursionError
    except RecursionError:
        raise ValueError(f"{path}: expected plain JSON, got brackets nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON ({error})") from error
    return found


def _whole_number(digits: str) -> int:
    if len(digits) > 20:  # no floating-point number has to hold it
        raise ValueError(f"a whole number of {len(digits)} characters")
    return int(digits)


def _is_deep(value: Any) -> bool:
    """Whether brackets are nested so deeply that copying or comparing the value could fail."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inner for part in parts]
    return bool(level)


def members(path: str, value: Any, known: Iterable[str]) -> dict[str, Any]:
    """Return a JSON object that has no other members than the `known` ones."""
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object, got {short(value)}")
    names = list(known)
    for key in value:
        if key not in names:
            raise ValueError(
                f"{path}: expected {', '.join(names) or 'no members'}, got {short(key)}"
                f"{checks.did_you_mean(key, names)}"
            )
    return value


def short(value: Any) -> str:
    """A value of a file for a message: its beginning, with nothing that moves a terminal's cursor."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."
