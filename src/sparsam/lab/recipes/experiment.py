"""What a recipe returns, and how it is carried out: run by run, resumable, ending in a table, a plot and JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from sparsam.lab.recipes import tables
from sparsam.lab.registry import Registry
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.loop import train


@dataclass
class Experiment:
    """Named runs, and what is read off them.

    `runs` maps a folder name to its config: the trainer's, or that of what a subclass trains with. A run counts as
    solved at its first evaluation below `solved`. `test_sizes` asks for an evaluation of every trained model at exactly
    these sizes. `claim`, `protocol` and `differences` (from the paper) go into its record, see `record.py`; with
    `cut_off` runs that have a checkpoint and no end as well.
    """

    name: str
    title: str
    runs: dict[str, Any]
    solved: float | None = None
    test_sizes: tuple[int, ...] = ()
    test_settings: dict[str, Any] = field(default_factory=dict)  # model settings for the test, e.g. memory_size
    prepare: Callable[[Experiment, Path], None] | None = None  # makes in the folder what the runs begin with
    claim: str = ""
    protocol: str = ""
    differences: tuple[str, ...] = ()
    cut_off: bool = False
    beside: Callable[[Path], dict[str, Any]] | None = None  # what the record has beside runs, from the folder of all

    def counts(self, folder: RunFolder) -> bool:
        """Whether the record has this run."""
        return folder.result() is not None or (self.cut_off and bool(checkpoint.whole_steps(folder.checkpoints)))

    def folder(self, path: Path) -> RunFolder:
        return RunFolder(path)

    def train(self, config: Any, path: Path, resume: bool, quiet: bool) -> Any:
        return train(config, path, resume=resume, quiet=quiet)

    def row(self, name: str, folder: RunFolder) -> dict[str, Any]:
        """A run's line of the table."""
        config, result = folder.config(), folder.result() or {}
        evaluation = result.get("evaluation", {})
        headline = next(iter(evaluation), "loss")
        evaluated = [event for event in folder.events("eval") if headline in event]
        solved = (e["sequences"] for e in evaluated if self.solved is not None and e[headline] < self.solved)
        row = {
            "run": name,
            "task": config.task.name,
            "model": config.model.name,
            "index": config.model.index,
            "memory_size": config.model.memory_size,
            "seed": config.seed,
            "minibatches": result.get("step"),
            "sequences": result.get("sequences"),
            headline: evaluation.get(headline),
            "lowest": min((event[headline] for event in evaluated), default=None),
            "solved_at": next(solved, None),
            "level": result.get("level"),
            "seconds": result.get("seconds"),
        }
        if config.curriculum:  # when each level was reached
            row["levels"] = {str(event["level"]): event["seconds"] for event in folder.events("level")}
        if self.test_sizes:
            row["tests"] = _tests(self, folder)
        return row

    def details(self, folder: RunFolder) -> dict[str, Any]:
        """What the record has of a run besides what it has of every run."""
        curriculum = folder.config().curriculum
        if not curriculum:
            return {}
        events = folder.events("level")
        levels = {str(event["level"]): event["seconds"] for event in events}
        last = events[-1]["level"] if events else curriculum.start  # of a run that was cut off
        return {"level": (folder.result() or {"level": last}).get("level"), "levels": levels}

    def draw(self, out: Path) -> None:
        """Learning curves (for a curriculum, levels over time), one picture per task."""
        from sparsam.lab.plots import curves

        by_task: dict[str, list[Path]] = {}
        for name, config in self.runs.items():
            if RunFolder(out / name).exists():
                by_task.setdefault(config.task.name, []).append(out / name)
        for task, paths in by_task.items():
            curves.plot_curves(paths, out / f"{task}.png")
            if any(self.runs[path.name].curriculum for path in paths):
                curves.plot_curves(paths, out / f"{task}-levels.png", "level", "seconds")


Recipe = TypeVar("Recipe", bound=Callable[..., Experiment])
RECIPES: Registry[Callable[..., Experiment]] = Registry(
    {
        "babi": "sparsam.lab.recipes.babi",
        "copy-lengths": "sparsam.lab.recipes.copy_lengths",
        "demo": "sparsam.lab.recipes.demo",
        "extrapolation": "sparsam.lab.recipes.extrapolation",
        "figure2": "sparsam.lab.recipes.figure2",
        "figure2-rates": "sparsam.lab.recipes.figure2",
        "figure3": "sparsam.lab.recipes.figure3",
        "omniglot-pixels": "sparsam.lab.recipes.omniglot_pixels",
        "popgym": "sparsam.lab.recipes.popgym",
        "popgym-horizon": "sparsam.lab.recipes.popgym",
    }
)


def register(recipe: Recipe) -> Recipe:
    """Make a recipe known by its function's name, with - for _."""
    RECIPES.add(recipe.__name__.replace("_", "-"), recipe)
    return recipe


def grid(
    config: Callable[[str, str], RunConfig], tasks: Iterable[str], models: Iterable[str], seeds: int
) -> dict[str, RunConfig]:
    """Runs `<task>-<model>-<seed>` of all these, by name; `config(task, model)` is what their seeds have in common."""
    runs = {}
    for task, model in itertools.product(tasks, models):
        common = config(task, model)
        for seed in range(seeds):
            name = f"{task}-{model}-{seed}"
            runs[name] = replace(common, name=name, seed=seed)
    return runs


def reproduce(
    experiment: Experiment,
    out: str | Path,
    report: Callable[[str], None] = print,
    quiet: bool = False,
    collect: bool = False,
) -> list[dict[str, Any]]:
    """Carry out what is left of an experiment and write summary.json, summary.md and the plots to `out`.

    A run that has ended is not run again; one that was interrupted goes on. With `collect` nothing is trained: what
    has ended is summed up, as when the runs were spread over machines. Returns one row per run.
    """
    out = Path(out)
    rows = []
    if experiment.prepare is not None and not collect:
        experiment.prepare(experiment, out)
    for number, (name, config) in enumerate(experiment.runs.items(), 1):
        folder = experiment.folder(out / name)
        if collect and not experiment.counts(folder):
            continue
        if folder.result() is None and not collect:
            report(f"[{number}/{len(experiment.runs)}] {name}")
            outcome = experiment.train(config, folder.path, resume=folder.exists(), quiet=quiet)
            if outcome.reason == "interrupted":
                raise KeyboardInterrupt
        rows.append(experiment.row(name, folder))
        _write(experiment, out, rows)
    if not rows:
        raise ValueError(f"{out} holds no run of {experiment.name} that has ended")
    experiment.draw(out)
    return rows


def _tests(experiment: Experiment, folder: RunFolder) -> dict[str, Any]:
    """Errors at each test size; kept beside the run, so that they are measured once."""
    from sparsam.lab.training.evaluate import evaluate
    from sparsam.lab.training.seeds import MinibatchSeeds
    from sparsam.lab.training.trained import load_model

    file = folder.path / "tests.json"
    tests: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    missing = [size for size in experiment.test_sizes if str(size) not in tests]
    if missing:
        model, task, config = load_model(folder.path, **experiment.test_settings)
        for size in missing:
            errors = evaluate(model, task, MinibatchSeeds(config.seed), 4, 2, size=size)
            tests[str(size)] = errors | {"chance": task.chance(size)}
            file.write_text(json.dumps(tests, indent=2))
    return tests


def _write(experiment: Experiment, out: Path, rows: list[dict[str, Any]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(
        json.dumps({"experiment": experiment.name, "title": experiment.title, "rows": rows}, indent=2) + "\n"
    )
    (out / "summary.md").write_text(f"# {experiment.title}\n\n{table(rows)}\n")


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table, without empty columns."""
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in ("tests", "levels")]
    keys = [key for key in keys if any(row.get(key) is not None for row in rows)]
    sizes = list(dict.fromkeys(size for row in rows for size in row.get("tests", {})))
    head = [key.replace("_", " ") for key in keys] + [f"at {int(size):,}" for size in sizes]
    lines = []
    for row in rows:
        tests = [next(iter(row.get("tests", {}).get(size, {}).values()), None) for size in sizes]
        lines.append([_text(value) for value in (*(row.get(key) for key in keys), *tests)])
    return tables.table(head, lines)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
