"""Everything that decides an agent's run, as JSON and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sparsam import checks
from sparsam.lab.agents.cores import CORES
from sparsam.lab.agents.environments import HORIZONS, PILOTS, POPGYM
from sparsam.lab.argument_types import check_fields, require
from sparsam.lab.training.config import from_dict, parsed_setting
from sparsam.lab.training.folder import RunFolder
from sparsam.model_description import LARGEST_TEXT, parsed
from sparsam.weights import read_plain

MOST = 1 << 16  # environments, steps, memory words and the like: beyond is a slip


@dataclass
class EnvironmentConfig:
    """An environment by name; `longest` is for those of any length, in training."""

    name: str = "RepeatPreviousEasy"
    longest: int = 100

    def __post_init__(self) -> None:
        check_fields(self, "task.")
        checks.one_of("task.name", self.name, (*POPGYM, *PILOTS, *HORIZONS))
        require(2 <= self.longest <= MOST, "task.longest", f"2 to {MOST:,}", f"{self.longest:,}")


@dataclass
class CoreConfig:
    """What the agent remembers with."""

    name: str = "sam"
    memory_size: int = 1024  # of those that have a memory

    def __post_init__(self) -> None:
        check_fields(self, "model.")
        checks.one_of("model.name", self.name, CORES)
        require(1 <= self.memory_size <= MOST, "model.memory_size", f"1 to {MOST:,}", f"{self.memory_size:,}")


@dataclass
class PPOConfig:
    """PPO (Schulman et al., 2017) with truncated backpropagation through a rollout of `length` steps."""

    learning_rate: float = 2e-3
    final_rate: float = 2e-4  # the rate falls to this in a straight line
    discount: float = 0.9
    trace: float = 0.95  # lambda of the generalised advantage estimation
    clip: float = 0.2  # of the ratio of new to old probabilities
    entropy: float = 0.01
    value: float = 0.5  # weight of the value's loss
    norm: float = 0.5  # the gradient's is clipped to this
    epochs: int = 4
    parts: int = 4  # minibatches of whole sequences that a rollout is cut into
    batch: int = 32  # environments side by side
    length: int = 64

    def __post_init__(self) -> None:
        check_fields(self, "ppo.")
        for name in ("epochs", "parts", "batch", "length"):
            number = checks.positive_int(f"ppo.{name}", getattr(self, name))
            require(number <= MOST, f"ppo.{name}", f"at most {MOST:,}", f"{number:,}")
        require(not self.batch % self.parts, "ppo.parts", f"a divisor of batch {self.batch}", self.parts)


@dataclass
class AgentConfig:
    """A complete run of one agent; the same config gives the same run on the same machine, interrupted or not."""

    name: str = "agent"
    seed: int = 0
    model: CoreConfig = field(default_factory=CoreConfig)
    task: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    steps: int = 1_048_576  # of all environments together
    block: int = 65_536  # steps between checkpoints, where all episodes begin anew and a mean return is taken

    def __post_init__(self) -> None:
        check_fields(self)
        rollout = self.ppo.batch * self.ppo.length
        for name, unit in (("block", rollout), ("steps", self.block)):
            if getattr(self, name) < unit or getattr(self, name) % unit:
                raise ValueError(f"{name}: expected a multiple of {unit:,}, got {getattr(self, name):,}")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def decisive(self) -> dict[str, Any]:
        """What a run's numbers depend on."""
        return {key: value for key, value in self.to_dict().items() if key != "name"}

    def with_settings(self, settings: Iterable[str]) -> AgentConfig:
        """A copy with `path=value` settings applied, as `ppo.learning_rate=5e-4`."""
        values = self.to_dict()
        for setting in settings:
            path, value = parsed_setting(setting)
            *parents, last = path.split(".")
            node: Any = values
            for parent in parents:
                node = node.get(parent) if isinstance(node, dict) else None
            if not isinstance(node, dict) or last not in node:
                raise ValueError(f"settings: expected path=value with a setting of the run, got {setting!r}")
            node[last] = value
        return from_dict(AgentConfig, values)


class AgentFolder(RunFolder):
    """A run's folder with an agent's config."""

    def config(self) -> AgentConfig:  # type: ignore[override]
        if not self.exists():
            raise FileNotFoundError(f"{self.path} holds no run (no config.json)")
        values = parsed(read_plain(self.config_file, LARGEST_TEXT), str(self.config_file))
        try:
            return from_dict(AgentConfig, values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.config_file}: {error}") from error
