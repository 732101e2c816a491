"""`sparsam train`: start a run, or go on with one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.cli.model_options import with_model_options
from sparsam.cli.runs import complete as complete_run
from sparsam.cli.runs import find_run
from sparsam.tasks import TASKS
from sparsam.training.config import OPTIMIZERS, CurriculumConfig, RunConfig
from sparsam.training.model_config import model_names
from sparsam.training.resume import ACCEPTABLE

_Model = "Model"
_Run = "Run"
_DEFAULT = RunConfig()


def _or(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


def train(
    task: Annotated[
        str | None,
        typer.Argument(
            help=f"{_or(TASKS)}, or a task of your own as module:Class.",
            show_default=False,
            autocompletion=lambda: list(TASKS),
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{_or(model_names())}.",
            rich_help_panel=_Model,
            show_default=_DEFAULT.model.name,
            autocompletion=lambda: list(model_names()),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.", show_default="runs/TASK-MODEL-SEED")] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with this run (its folder, the beginning of its name, or 'last'); options given beside it "
            "change its config.",
            show_default="a new run",
            autocompletion=complete_run,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Start from a config.json; other options change it.", show_default="the defaults below"),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Start from these trained weights: a .safetensors file or a run's folder.", show_default="fresh ones"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that is already in the folder.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            help="When a run goes on: " + "; ".join(f"{name}: {what}" for name, what in ACCEPTABLE.items()) + ".",
            autocompletion=lambda: list(ACCEPTABLE),
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of weights and data.", rich_help_panel=_Run, show_default=str(_DEFAULT.seed))
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Minibatches.", rich_help_panel=_Run, show_default=f"{_DEFAULT.steps}")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="End after this wall time.", rich_help_panel=_Run, show_default="no limit")
    ] = None,
    stop_below: Annotated[
        float | None,
        typer.Option(help="End when the evaluated error is below.", rich_help_panel=_Run, show_default="never"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Sequences per minibatch.", rich_help_panel=_Run, show_default=str(_DEFAULT.batch_size)),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help=f"{_or(OPTIMIZERS)}.",
            rich_help_panel=_Run,
            show_default=_DEFAULT.optimizer.name,
            autocompletion=lambda: list(OPTIMIZERS),
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Step size.", rich_help_panel=_Run, show_default=str(_DEFAULT.optimizer.learning_rate)),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Largest gradient norm; 0 for none.", rich_help_panel=_Run, show_default=str(_DEFAULT.optimizer.clip)
        ),
    ] = None,
    curriculum: Annotated[
        bool, typer.Option("--curriculum", help="Double the level whenever it is learnt.", rich_help_panel=_Run)
    ] = False,
    max_level: Annotated[
        int | None, typer.Option(help="Where the curriculum ends.", rich_help_panel=_Run, show_default="nowhere")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Asynchronous processes on shared parameters.",
            rich_help_panel=_Run,
            show_default="0, train in this process",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="cpu, cuda or cuda:N.",
            rich_help_panel=_Run,
            show_default=_DEFAULT.device,
            autocompletion=lambda: ["cpu", "cuda"],
        ),
    ] = None,
    logger: Annotated[
        list[str] | None,
        typer.Option(
            help="A logger of your own as module:Class, beside TensorBoard; may be repeated.", rich_help_panel=_Run
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Any other setting, e.g. --set task.settings.bits=4; may be repeated."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    model_settings: dict[str, Any] | None = None,
) -> None:
    """Train a model on a task.

    Everything goes to the run's folder: config, versions and command, log (JSON lines and TensorBoard), checkpoints.
    Ctrl-C saves and ends with code 130; --resume RUN goes on, to the same bits as if nothing had happened.

    Several machines or processes in step: torchrun --nproc-per-node 2 -m sparsam.cli train ...
    """
    from sparsam.training.loop import train as run_training
    from sparsam.training.resume import check_accepted, previous_config

    changes: dict[str, Any] = {
        "model.name": model, **{f"model.{key}": value for key, value in (model_settings or {}).items()},
        "seed": seed, "steps": steps, "seconds": seconds, "stop_below": stop_below, "batch_size": batch_size,
        "optimizer.name": optimizer, "optimizer.learning_rate": learning_rate, "optimizer.clip": clip,
        "workers": workers, "device": device, "curriculum.max_level": max_level, "task.name": task,
        "weights": str(weights) if weights else None, "loggers": logger or None,
    }  # fmt: skip
    going_on = None
    if resume is not None:
        from sparsam.training.folder import RunFolder

        going_on = find_run(resume)
        base = previous_config(RunFolder(going_on), check_accepted(accept or ()))
    elif config is not None:
        base = RunConfig.load(config)
    elif task is None:
        raise typer.BadParameter("name a task, or a run to --resume", param_hint="TASK")
    else:
        base = RunConfig()
    if curriculum and base.curriculum is None:
        base.curriculum = CurriculumConfig()
    given = [f"{path}={json.dumps(value)}" for path, value in changes.items() if value is not None]
    final = base.with_settings([*given, *(settings or [])])
    if resume is None and config is None:
        final.name = f"{final.task.name.rpartition(':')[2]}-{final.model.name}-{final.seed}"
    folder = going_on or out or Path("runs") / final.name
    outcome = run_training(final, folder, resume=going_on is not None, quiet=quiet, force=force, accept=accept or ())
    errors = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in outcome.evaluation.items())
    print(
        f"{outcome.reason} after {outcome.step:,} minibatches and {outcome.seconds:.1f} s: {errors or 'no evaluation'}"
    )
    print(f"run folder: {folder}")
    if outcome.reason == "interrupted":
        print(f"go on with: sparsam train --resume {folder}")
        sys.exit(128 + (outcome.signal or 2))


command = with_model_options(train)
