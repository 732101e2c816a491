"""Everything that decides a run, as typed dataclasses that go to JSON and back.

A config read from JSON is checked: an unknown key, a missing one or a value of the wrong type raises a
ValueError that names the key by its full path (`optimizer.learning_rate`).
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sparsam import checks
from sparsam.lab.argument_types import check_fields, is_union, require
from sparsam.lab.tasks.task import MOST_ITEMS
from sparsam.lab.training.model_config import ModelConfig, unknown_setting, with_start, without_first_format
from sparsam.model_description import LARGEST_TEXT, parsed
from sparsam.models import MODELS
from sparsam.start import STARTS, as_values
from sparsam.weights import read_plain

OPTIMIZERS = ("adam", "rmsprop")
RATES_FALL_BY = ("steps", "seconds")
WHEN_WORKERS_DIE = ("replace", "end")

_LEAST = dict.fromkeys(("batch_size", "steps", "threads", "log_every", "checkpoint_every"), 1)
_LEAST |= dict.fromkeys(("eval_every", "eval_batches", "eval_batch_size"), 1)
_LEAST |= dict.fromkeys(("seconds", "workers", "checkpoint_seconds"), 0)
# More than anybody needs, and less than what makes a machine stand still.
_MOST = {"threads": 1024, "workers": 1024, "batch_size": 2**20, "eval_batch_size": 2**20, "steps": 2**53}


@dataclass
class TaskConfig:
    """A task by name, or a class of your own as `module:Class`, with the arguments of its constructor.

    `training` changes some of them for the minibatches that are trained on, not for those that are evaluated.
    """

    name: str = "copy"
    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "task.")

    def build(self, for_training: bool = False) -> Any:
        from sparsam.lab import tasks
        from sparsam.lab.training.user_classes import is_own, own_task

        settings = self.settings | (self.training if for_training else {})
        return own_task(self.name, settings) if is_own(self.name) else tasks.build(self.name, **settings)


@dataclass
class OptimizerConfig:
    """Adam, or RMSProp as in the paper. The gradient's norm is clipped to `clip` (0: not clipped)."""

    name: str = "adam"
    learning_rate: float = 1e-3
    decay: float = 0.95  # RMSProp's average of squares; Adam's beta2 is beta2
    momentum: float = 0.9  # RMSProp's momentum, Adam's beta1
    beta2: float = 0.999
    epsilon: float = 1e-6
    clip: float = 1.0
    warmup: int = 0  # minibatches over which the learning rate rises from zero
    final_rate: float | None = None  # the rate falls to this by the last minibatch, by the same factor each time
    hold: int = 0  # minibatches at the full rate before it falls
    final_by: str = "steps"  # or by the share of the run's `seconds` that is over, for runs that time ends
    hold_share: float = 0.0  # then: the share of them at the full rate
    input_layer_from: float = 0.0  # share of the run after which a task's input layer learns as well
    input_layer_rate: float = 1.0  # its steps, as a share of the others'
    full_rate_level: int | None = None  # above this level of the curriculum the rate falls with the root of the level
    patience: int = 0  # minibatches in a row without a finite gradient that are passed over before the run ends

    def __post_init__(self) -> None:
        check_fields(self, "optimizer.")
        checks.one_of("optimizer.name", self.name, OPTIMIZERS)
        checks.one_of("optimizer.final_by", self.final_by, RATES_FALL_BY)
        for name in ("learning_rate", "final_rate"):
            value = getattr(self, name)
            require(value is None or value > 0, f"optimizer.{name}", "a positive number", value)
        for name in ("decay", "momentum", "beta2", "input_layer_from"):
            checks.number_in(f"optimizer.{name}", getattr(self, name), 0.0, 1.0)
        for name in ("epsilon", "warmup", "hold", "clip", "patience"):
            require(getattr(self, name) >= 0, f"optimizer.{name}", "0 or more", getattr(self, name))
        require(0 <= self.hold_share < 1, "optimizer.hold_share", "a share below 1", self.hold_share)
        require(0 < self.input_layer_rate <= 1, "optimizer.input_layer_rate", "a share up to 1", self.input_layer_rate)
        level = self.full_rate_level
        require(level is None or level >= 1, "optimizer.full_rate_level", "at least 1", level)


@dataclass
class CurriculumConfig:
    """The exponential curriculum: the level doubles when the mean loss of `patience` minibatches is low enough.

    With `over` it rises by the clock instead, evenly from `start` to `max_level`.
    """

    start: int = 2
    threshold: float = 0.05  # nats per bit
    patience: int = 100
    max_level: int | None = None
    over: int | None = None  # minibatches from start to max_level, whatever the loss
    retreat: float | None = None  # back to a level's best weights when the mean loss is this many times theirs

    def __post_init__(self) -> None:
        check_fields(self, "curriculum.")
        top, over, retreat = self.max_level, self.over, self.retreat
        alone = retreat is None or (retreat > 1 and over is None)
        require(alone, "curriculum.retreat", "more than 1, and no curriculum.over", retreat)
        require(top is None or 1 <= top <= MOST_ITEMS, "curriculum.max_level", f"1 to {MOST_ITEMS:,}", top)
        require(1 <= self.start <= MOST_ITEMS, "curriculum.start", f"1 to {MOST_ITEMS:,}", self.start)
        require(self.patience >= 1, "curriculum.patience", "at least 1", self.patience)
        ends = over is None or (over >= 1 and top is not None)
        require(ends, "curriculum.over", "at least 1 and a curriculum.max_level", over)


@dataclass
class RunConfig:
    """A complete run: the same config and seed give the same weights, bit for bit, on the same machine."""

    name: str = "run"
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    curriculum: CurriculumConfig | None = None
    weights: str | None = None  # what the run starts from: a weights file or a run's folder; None: fresh parameters
    batch_size: int = 8
    steps: int = 10_000  # minibatches, of all workers together
    seconds: float | None = None  # wall time, ends the run as well
    stop_below: float | None = None  # ends the run when the evaluation's headline error is below
    workers: int = 0  # asynchronous processes; 0: train in this one
    when_workers_die: str = "replace"  # "replace" them (a few times), or "end" the run
    wait_seconds: float = 600.0  # longest wait for a worker's next minibatch, or for another process of torchrun's
    device: str = "cpu"
    threads: int | None = None  # CPU threads of torch; None leaves them alone
    log_every: int = 100
    eval_every: int = 1_000
    eval_batches: int = 8
    eval_batch_size: int = 32
    checkpoint_every: int = 1_000
    checkpoint_seconds: float = 300.0  # and at least this often
    tensorboard: bool = True
    loggers: list[str] = field(default_factory=list)  # more places for the log, each a `module:Class`

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.model, ModelConfig):
            raise TypeError(f"model: expected a ModelConfig, got {type(self.model).__name__} {self.model!r}")
        if not re.fullmatch(r"[^/\\\0]+", self.name) or self.name in (".", ".."):
            raise ValueError(f"name: expected the name of a folder, without a path, got {self.name!r}")
        checks.one_of("when_workers_die", self.when_workers_die, WHEN_WORKERS_DIE)
        require(self.wait_seconds > 0, "wait_seconds", "a positive number", self.wait_seconds)
        for key, least in _LEAST.items():
            value = getattr(self, key)
            require(value is None or value >= least, key, "at least 1" if least else "0 or more", value)
        for key, most in _MOST.items():
            require((getattr(self, key) or 0) <= most, key, f"at most {most:,}", getattr(self, key))
        by_time = self.optimizer.final_rate is not None and self.optimizer.final_by == "seconds"
        if by_time and self.seconds is None:
            raise ValueError("optimizer.final_by: expected 'steps' for a run without seconds, got 'seconds'")
        late = self.optimizer.input_layer_from > 0 or self.optimizer.input_layer_rate < 1
        if self.workers and (by_time or late):
            raise ValueError(
                "workers: expected 0 with optimizer.final_by 'seconds', input_layer_from or input_layer_rate, "
                f"got {self.workers}"
            )

    def to_dict(self) -> dict[str, Any]:
        plain = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        return {key: _plain(value) for key, value in plain.items()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def decisive(self) -> dict[str, Any]:
        """What a run's numbers depend on; where it was carried out does not matter."""
        plain = self.to_dict()
        plain["model"].pop("engine", None)
        for part in ("settings", "training"):
            plain["task"][part] = {k: v for k, v in plain["task"][part].items() if k not in ("root", "device")}
        kept = ("seed", "model", "task", "optimizer", "curriculum", "weights", "batch_size", "steps", "seconds")
        return {key: plain[key] for key in kept}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        return from_dict(cls, with_start(values) if isinstance(values, dict) else values)

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        values = parsed(text, "config")
        if isinstance(values, dict) and isinstance(values.get("model"), dict):
            values["model"] = without_first_format(values["model"])
        return cls.from_dict(values)

    @classmethod
    def load(cls, path: str | Path) -> RunConfig:
        """The config in a file; an error names the file."""
        data = read_plain(Path(path), LARGEST_TEXT)
        try:
            return cls.from_json(data.decode())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def with_settings(self, settings: Iterable[str]) -> RunConfig:
        """A copy with `path=value` settings applied: `["model.k=8", "task.settings.bits=4"]`.

        Values are read as JSON where they can be, as plain text otherwise.
        """
        values = self.to_dict()
        for setting in settings:
            path, value = parsed_setting(setting)
            path = path.replace("model.extra.", "model.")  # where earlier versions had some of a model's settings
            path = re.sub(r"^start\b", "model.start", path)
            *parents, last = path.split(".")
            if path == "model.name" and value in MODELS:  # of the settings so far, those that it has
                values["model"] = ModelConfig.from_dict(values["model"]).renamed(value)
            node = values
            for depth, parent in enumerate(parents):
                if parents[: depth + 1] == ["model", "start"] and isinstance(node.get(parent), str):
                    node[parent] = as_values(STARTS[node[parent]])  # the numbers behind a name
                if node.get(parent) is None and parent in _OPTIONAL:
                    node[parent] = dataclasses.asdict(_OPTIONAL[parent]())
                if not isinstance(node.get(parent), dict):
                    raise ValueError(unknown_setting(path, path.split(".")[depth], node))
                node = node[parent]
            node[last] = value
        return RunConfig.from_dict(values)


def parsed_setting(setting: str) -> tuple[str, Any]:
    """Path and value of `path=value`; the value is read as JSON where it can be, as plain text otherwise."""
    path, equals, text = setting.partition("=")
    if not equals:
        raise ValueError(f"settings: expected path=value, got {setting!r}")
    try:
        return path, parsed(text, path)
    except ValueError:
        return path, text


_OPTIONAL: dict[str, Any] = {"curriculum": CurriculumConfig}  # parts that a run can be without

Config = TypeVar("Config")


def from_dict(kind: type[Config], values: Any, path: str = "") -> Config:
    """Build a config dataclass from plain values, checking keys and types on the way."""
    if not isinstance(values, dict):
        raise ValueError(f"{path or 'config'}: expected an object, got {values!r}")
    hints = typing.get_type_hints(kind)
    names = {entry.name for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ValueError(unknown_setting(_join(path, key), key, names))
    return kind(**{key: _convert(hints[key], value, _join(path, key)) for key, value in values.items()})


def _convert(kind: Any, value: Any, path: str) -> Any:
    if is_union(kind):
        if value is None:
            return None
        return _convert(next(a for a in typing.get_args(kind) if a is not type(None)), value, path)
    if kind is ModelConfig:
        return ModelConfig.from_dict(value, path)
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, path)
    wanted = typing.get_origin(kind) or kind
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise ValueError(f"{path}: expected {wanted.__name__}, got {value!r}")
    if wanted is list:
        return [_convert(typing.get_args(kind)[0], entry, f"{path}[{place}]") for place, entry in enumerate(value)]
    return value


def by_path(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The settings of a config's dict by their full paths."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= by_path(value, _join(path, key)) if isinstance(value, dict) else {_join(path, key): value}
    return flat


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _plain(value: Any) -> Any:
    """A part of a config as JSON has it, with no piece in common."""
    if isinstance(value, ModelConfig):
        return copy.deepcopy(value.to_dict())
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else copy.deepcopy(value)  # type: ignore[arg-type]
