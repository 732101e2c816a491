"""POPGym: agents that must remember, with seven cores at matched parameters in one PPO; and T-Maze and RepeatFirst at
horizons up to a million steps, for agents that were trained on at most a hundred.

Rates, discount and rollout length were chosen on environments that are not in the table (`environments.PILOTS`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparsam import checks
from sparsam.lab.agents import horizon, ppo
from sparsam.lab.agents.config import AgentConfig, AgentFolder, CoreConfig, EnvironmentConfig
from sparsam.lab.agents.cores import CORES
from sparsam.lab.agents.environments import HORIZONS, POPGYM
from sparsam.lab.recipes.experiment import Experiment, register
from sparsam.lab.recipes.tables import spread, table
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.folder import RunFolder

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
COMPARED = ("sam", "sdnc", "layer", "gru", "lstm", "frames", "ffm")
AT_HORIZONS = ("sam-feedforward", "sam", "layer", "gru", "lstm", "ffm")


@dataclass
class Agents(Experiment):
    """Runs of agents; `lengths` asks for a test of each at exactly these horizons."""

    lengths: tuple[int, ...] = ()

    def folder(self, path: Path) -> RunFolder:
        return AgentFolder(path)

    def train(self, config: Any, path: Path, resume: bool, quiet: bool) -> ppo.Outcome:
        return ppo.train(config, path, resume=resume, quiet=quiet)

    def row(self, name: str, folder: RunFolder) -> dict[str, Any]:
        config, result = folder.config(), folder.result() or {}
        row: dict[str, Any] = {
            "run": name,
            "environment": config.task.name,
            "core": config.model.name,
            "seed": config.seed,
            "mean_return": result.get("evaluation", {}).get("mean_return"),
            **{key: result.get(key) for key in ("steps_per_second", "parameters")},
        }
        if self.lengths:
            row["tests"] = self._tests(self.runs[name], folder)
        return row

    def _tests(self, config: AgentConfig, folder: RunFolder) -> dict[str, Any]:
        """The share of the optimal return at each length; kept beside the run, so that it is measured once."""
        file = folder.path / "tests.json"
        tests: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        missing = [length for length in self.lengths if str(length) not in tests]
        if missing:
            agent = ppo.load(config, folder)
            for length in missing:
                tests[str(length)] = horizon.test(agent, config.task.name, length)
                write_atomic(file, json.dumps(tests, indent=2).encode())
        return tests

    def details(self, folder: RunFolder) -> dict[str, Any]:
        result = folder.result() or {}
        kept = ("steps_per_second", "parameters", "sequences")
        return {"environment": folder.config().task.name, **{key: result.get(key) for key in kept}}

    def draw(self, out: Path) -> None:
        from sparsam.lab.plots.agents import draw
        from sparsam.lab.plots.canvas import save

        save(draw(curves(self, out)), out / f"{self.name}.png")


def curves(experiment: Experiment, out: Path) -> dict[str, dict[str, list[list[tuple[float, float]]]]]:
    """Learning curves of the runs that have begun: environment, core, seeds."""
    found: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for name, config in experiment.runs.items():
        points = AgentFolder(out / name).points("eval", "mean_return", "step")
        if points:
            found.setdefault(config.task.name, {}).setdefault(config.model.name, []).append(points)
    return found


def _runs(
    known: Sequence[str], environments: Sequence[str], cores: Sequence[str], seeds: int, steps: int
) -> dict[str, AgentConfig]:
    """A whole round of all environments and cores for each seed, so that what is cut off is whole rounds."""
    for name in environments:
        checks.one_of("task", name, known)
    for name in cores:
        checks.one_of("model", name, CORES)
    runs = {}
    for seed in range(seeds):
        for task in environments:
            for core in cores:
                config = AgentConfig(f"{task}-{core}-{seed}", seed, CoreConfig(core), EnvironmentConfig(task))
                runs[config.name] = replace(config, steps=steps)
    return runs


@register
def popgym(
    seeds: int = 3, tasks: Sequence[str] = POPGYM, models: Sequence[str] = COMPARED, steps: int = 1_048_576
) -> Agents:
    """`steps` of all environments together for each run."""
    return Agents(
        "popgym",
        "POPGym: maximum mean episodic return",
        _runs(POPGYM, tasks, models, seeds, steps),
        claim="an external memory with defaults that learn helps an agent under partial observability",
        protocol=(
            f"{steps:,} environment steps a run. The same PPO, rates and heads for every core, and as many parameters "
            "as SAM's. The figure is POPGym's: the largest mean return of the episodes that ended in 65,536 steps. "
            "Rates, discount and rollout length were chosen with SAM and the GRU on RepeatPreviousEasy and "
            "PositionOnlyCartPoleEasy, which are not in the table. Steps per second are of one "
            "thread's processor time, beside other work."
        ),
        differences=(
            "POPGym's own baselines train for 15 million steps, with 1 to 2 layers of up to 256 units, in RLlib's PPO.",
            "The previous action and a flag at the first step are part of the observation, as in POPGym's baselines.",
        ),
    )


@register
def popgym_horizon(
    seeds: int = 3, tasks: Sequence[str] = tuple(HORIZONS), models: Sequence[str] = AT_HORIZONS, steps: int = 262_144
) -> Agents:
    """Agents that are trained at horizons of at most 100 steps and tested at up to a million."""
    return Agents(
        "popgym-horizon",
        "T-Maze and RepeatFirst at horizons beyond training",
        _runs(tuple(HORIZONS), tasks, models, seeds, steps),
        claim="what an agent wrote once is there a million steps later",
        protocol=(
            f"{steps:,} environment steps a run at horizons of 2 to 100. Tested at exactly the lengths of the table, "
            f"greedily, over {horizon.EPISODES} episodes. T-Maze leaves no step to waste: a wrong turn, or a step that "
            "is not forward in the corridor, ends the episode. sam-feedforward has a controller without a state of its "
            "own, and first weights with which a row that is read is not written again (reuse -30)."
        ),
        lengths=LENGTHS,
    )


def report(out: str | Path) -> str:
    """Mean and deviation over seeds, an environment a row and a core a column."""
    rows = json.loads((Path(out) / "summary.json").read_text())["rows"]
    cores = list(dict.fromkeys(row["core"] for row in rows))
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        mine = found.setdefault(row["environment"], {}).setdefault(row["core"], [])
        mine += [] if row["mean_return"] is None else [row["mean_return"]]
    lines = [[name, *(spread(by_core.get(core, []), 3) for core in cores)] for name, by_core in found.items()]
    return table(["environment", *cores], lines)
