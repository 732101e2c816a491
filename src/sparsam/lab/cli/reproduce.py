"""`sparsam reproduce`: run an experiment of the paper."""

from __future__ import annotations

import importlib
import inspect
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import argument, option, settings_option
from sparsam.lab.cli.model_options import Quiet
from sparsam.lab.recipes import RECIPES

_OWN = "set by the experiment"


def reproduce(
    figure: Annotated[str, argument(f"{', '.join(RECIPES)}.", False, RECIPES)],
    seeds: Annotated[int | None, option("Runs per model.", _OWN)] = None,
    budget: Annotated[float | None, option("Stop each run after this many seconds.", _OWN)] = None,
    steps: Annotated[int | None, option("Stop each run after this many minibatches.", _OWN)] = None,
    task: Annotated[list[str] | None, option("Only this task; may be repeated.", "all", metavar="NAME")] = None,
    model: Annotated[list[str] | None, option("Only this model; may be repeated.", "all", metavar="NAME")] = None,
    out: Annotated[Path | None, option("Folder of the runs.", "runs/FIGURE")] = None,
    settings: Annotated[list[str] | None, settings_option("Change a setting of every run; may be repeated.")] = None,
    list_runs: Annotated[bool, typer.Option("--list", help="List the runs and stop.")] = False,
    collect: Annotated[bool, typer.Option("--collect", help="Train nothing; summarise the finished runs.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Train nothing; write docs/results and README's tables from the records.")
    ] = False,
    record: Annotated[
        Path | None, option("Write the finished runs and their tests to this JSON record.", "none")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper and write its table and plots.

    Run the same command again after an interruption: finished runs are kept, the others resume.

    Examples:

        sparsam reproduce figure2 --list
        sparsam reproduce figure3 --task copy --model sam-linear --seeds 1 --budget 300
    """
    if page:
        print("\n".join(map(str, _write_pages())) or "every page says what its records say")
        return
    from sparsam.lab.recipes import recipe
    from sparsam.lab.recipes.experiment import reproduce as carry_out
    from sparsam.lab.recipes.experiment import table

    function = recipe(figure)
    wanted: dict[str, Any] = {"seeds": seeds, "budget": budget, "steps": steps, "tasks": task, "models": model}
    known = inspect.signature(function).parameters
    given = {key: value for key, value in wanted.items() if value is not None}
    for key in given:
        if key not in known:
            raise ValueError(f"{figure} has no option {key!r} (it has: {', '.join(known)})")
    try:
        experiment = function(**given)
    except KeyError as error:
        raise ValueError(f"{figure} has no task or model named {error}") from error
    if settings:
        experiment.runs = {name: config.with_settings(settings) for name, config in experiment.runs.items()}
    if list_runs:
        print("\n".join(experiment.runs))
        return
    folder = out or Path("runs") / figure
    rows = carry_out(experiment, folder, quiet=quiet, collect=collect)
    print(table(rows))
    report = getattr(sys.modules[function.__module__], "report", None)
    if report is not None:  # the experiment's own table, as the paper prints it
        print(report(folder))
    if record is not None:
        from sparsam.lab.recipes.record import write

        given_options = {"--seeds": seeds, "--budget": budget, "--steps": steps, "--task": task, "--model": model}
        write(record, experiment, folder, _command(figure, given_options | {"--set": settings}))
        print(f"record: {record}")
    print(f"table, JSON and plots: {folder}")


def _write_pages() -> list[Path]:
    """Write the pages of the source tree that have changed; an installed package has none."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "docs" / "pages").is_dir():
        raise FileNotFoundError(
            "page: expected the source tree, whose docs/ holds the records; this is an installation"
        )
    sys.path.insert(0, str(root / "docs"))
    changed: list[Path] = importlib.import_module("pages").write(root)
    return changed


def _command(figure: str, options: dict[str, Any]) -> str:
    """The command that carries out these runs, without where they are kept."""
    words = ["sparsam", "reproduce", figure]
    for name, value in options.items():
        for entry in value if isinstance(value, list) else [value]:
            words += [name, str(entry)] if entry is not None else []
    return shlex.join(words)
