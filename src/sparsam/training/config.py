"""Everything that decides a run, as typed dataclasses that go to JSON and back.

A config read from JSON is checked: an unknown key, a missing one or a value of the wrong type raises a
ValueError that names the key by its full path (``optimizer.learning_rate``).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from sparsam.training.start import StartConfig

MODELS = ("lstm", "ntm", "dam", "sam", "dnc", "sdnc", "blocks")

# The arguments each model understands besides input_size and output_size.
_DENSE = ("hidden_size", "memory_size", "word_size", "num_heads")
_SPARSE = (*_DENSE, "k", "index", "engine")
_ARGUMENTS = {
    "lstm": ("hidden_size",),
    "ntm": _DENSE,
    "dam": _DENSE,
    "dnc": _DENSE,
    "sam": _SPARSE,
    "sdnc": _SPARSE,
    "blocks": _SPARSE,
}


@dataclass
class ModelConfig:
    """One of the six models, or blocks of sequence mixers over tokens ("blocks").

    A setting that a model does not have (``k`` of an LSTM) is not passed to it.
    """

    name: str = "sam"
    hidden_size: int = 100
    memory_size: int = 1024
    word_size: int = 32
    num_heads: int = 4
    k: int = 4
    index: str = "linear"
    index_settings: dict[str, Any] = field(default_factory=dict)  # of that index, e.g. {"checks": 256} for "kdtree"
    engine: str = "auto"
    extra: dict[str, Any] = field(default_factory=dict)  # further keyword arguments of the model, passed as they are

    def __post_init__(self) -> None:
        _one_of("model.name", self.name, MODELS)

    def arguments(self) -> dict[str, Any]:
        values: dict[str, Any] = {key: getattr(self, key) for key in _ARGUMENTS[self.name]}
        if self.index_settings and "index" in values:
            values["index"] = self._index()
        return values | self.extra

    def _index(self) -> Any:
        from sparsam import indexes

        if self.index not in indexes.NAMES:
            raise ValueError(f"model.index: unknown {self.index!r}{_suggest(self.index, indexes.NAMES)}")
        try:
            return indexes.NAMES[self.index](**self.index_settings)
        except TypeError as error:
            raise ValueError(f"model.index_settings: {error}") from error

    def build(self, input_size: int, output_size: int) -> torch.nn.Module:
        import sparsam

        if self.name == "blocks":
            from sparsam.experiments.baselines import TokenModel

            return TokenModel(input_size, output_size, **self.arguments())
        return sparsam.build(self.name, input_size=input_size, output_size=output_size, **self.arguments())


@dataclass
class TaskConfig:
    """A task by name, with the arguments of its constructor.

    ``training`` changes some of them for the minibatches that are trained on, not for those that are evaluated.
    """

    name: str = "copy"
    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    def build(self, for_training: bool = False) -> Any:
        from sparsam import tasks

        return tasks.build(self.name, **(self.settings | (self.training if for_training else {})))


@dataclass
class OptimizerConfig:
    """RMSProp as in the paper, or Adam. The gradient's norm is clipped to ``clip`` (0: not clipped)."""

    name: str = "rmsprop"
    learning_rate: float = 1e-3
    decay: float = 0.95  # RMSProp's average of squares; Adam's beta2 is beta2
    momentum: float = 0.9  # RMSProp's momentum, Adam's beta1
    beta2: float = 0.999
    epsilon: float = 1e-6
    clip: float = 1.0
    warmup: int = 0  # minibatches over which the learning rate rises from zero
    final_rate: float | None = None  # what the rate falls to by the last minibatch, by the same factor each time ...
    hold: int = 0  # ... after so many minibatches at the full rate
    full_rate_level: int | None = None  # above this level of the curriculum the rate falls with the root of the level
    patience: int = 0  # minibatches in a row without a finite gradient that are passed over before the run ends

    def __post_init__(self) -> None:
        _one_of("optimizer.name", self.name, ("rmsprop", "adam"))
        if self.learning_rate <= 0:
            raise ValueError(f"optimizer.learning_rate must be positive, got {self.learning_rate}")
        if self.final_rate is not None and self.final_rate <= 0:
            raise ValueError(f"optimizer.final_rate must be positive, got {self.final_rate}")
        if self.hold < 0:
            raise ValueError(f"optimizer.hold must be zero or more, got {self.hold}")
        if self.clip < 0:
            raise ValueError(f"optimizer.clip must be zero (off) or positive, got {self.clip}")
        if self.full_rate_level is not None and self.full_rate_level < 1:
            raise ValueError(f"optimizer.full_rate_level must be at least 1, got {self.full_rate_level}")
        if self.patience < 0:
            raise ValueError(f"optimizer.patience must be zero or more, got {self.patience}")


@dataclass
class CurriculumConfig:
    """The exponential curriculum: the level doubles when the mean loss of ``patience`` minibatches is low
    enough.
    """

    start: int = 2
    threshold: float = 0.05  # nats per bit
    patience: int = 100
    max_level: int | None = None

    def __post_init__(self) -> None:
        if self.start < 1:
            raise ValueError(f"curriculum.start must be at least 1, got {self.start}")
        if self.patience < 1:
            raise ValueError(f"curriculum.patience must be at least 1, got {self.patience}")


@dataclass
class RunConfig:
    """A complete run: the same config and seed give the same weights, bit for bit, on the same machine."""

    name: str = "run"
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    start: StartConfig | None = None
    curriculum: CurriculumConfig | None = None
    weights: str | None = None  # what the run starts from: a weights file or a run's folder; None: fresh parameters
    batch_size: int = 8
    steps: int = 10_000  # minibatches, of all workers together
    seconds: float | None = None  # wall time, ends the run as well
    stop_below: float | None = None  # ends the run when the evaluation's headline error is below
    workers: int = 0  # asynchronous processes; 0: train in this one
    device: str = "cpu"
    threads: int | None = None  # CPU threads of torch; None leaves them alone
    log_every: int = 100
    eval_every: int = 1_000
    eval_batches: int = 8
    eval_batch_size: int = 32
    checkpoint_every: int = 1_000
    checkpoint_seconds: float = 300.0  # and at least this often
    tensorboard: bool = True

    def __post_init__(self) -> None:
        for key in (
            "batch_size",
            "steps",
            "log_every",
            "eval_every",
            "eval_batches",
            "eval_batch_size",
            "checkpoint_every",
        ):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be at least 1, got {getattr(self, key)}")
        if self.workers < 0:
            raise ValueError(f"workers must be 0 (train in this process) or more, got {self.workers}")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        return from_dict(cls, values)

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        return cls.from_dict(json.loads(text))

    @classmethod
    def load(cls, path: str | Path) -> RunConfig:
        return cls.from_json(Path(path).read_text())

    def with_settings(self, settings: Iterable[str]) -> RunConfig:
        """A copy with ``path=value`` settings applied: ``["model.k=8", "task.settings.bits=4"]``.

        Values are read as JSON where they can be, as plain text otherwise.
        """
        values = self.to_dict()
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(f"a setting is written path=value, got {setting!r}")
            try:
                value = json.loads(text)
            except json.JSONDecodeError:
                value = text
            *parents, last = path.split(".")
            node = values
            for depth, parent in enumerate(parents):
                if node.get(parent) is None and parent in _OPTIONAL:
                    node[parent] = dataclasses.asdict(_OPTIONAL[parent]())
                if not isinstance(node.get(parent), dict):
                    raise ValueError(
                        f"unknown setting {path!r}{_suggest('.'.join(path.split('.')[: depth + 1]), node)}"
                    )
                node = node[parent]
            node[last] = value
        return RunConfig.from_dict(values)


_OPTIONAL: dict[str, Any] = {"curriculum": CurriculumConfig, "start": StartConfig}  # parts that a run can be without

Config = TypeVar("Config")


def from_dict(kind: type[Config], values: Any, path: str = "") -> Config:
    """Build a config dataclass from plain values, checking keys and types on the way."""
    if not isinstance(values, dict):
        raise ValueError(f"{path or 'config'} must be an object, got {values!r}")
    hints = typing.get_type_hints(kind)
    names = {entry.name for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ValueError(f"unknown setting {_join(path, key)!r}{_suggest(key, names)}")
    return kind(**{key: _convert(hints[key], value, _join(path, key)) for key, value in values.items()})


def _convert(kind: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _convert(next(a for a in typing.get_args(kind) if a is not type(None)), value, path)
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, path)
    wanted = origin or kind
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ValueError(f"{path} must be {wanted.__name__}, got {value!r}")
    return value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _suggest(word: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(sorted(choices))})"


def _one_of(path: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise ValueError(f"{path}: unknown {value!r}{_suggest(str(value), choices)}")
