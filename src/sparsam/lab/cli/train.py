"""`sparsam train`: start a run, or go on with one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.model_options import OwnTaskOption, with_model_options
from sparsam.lab.cli.runs import complete as complete_run
from sparsam.lab.cli.runs import find_run
from sparsam.lab.tasks import TASKS
from sparsam.lab.training.config import OPTIMIZERS, CurriculumConfig, RunConfig
from sparsam.lab.training.resume import ACCEPTABLE
from sparsam.models import MODELS
from sparsam.weights import find

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
            help=f"{_or(MODELS)}.",
            rich_help_panel=_Model,
            show_default=_DEFAULT.model.name,
            autocompletion=lambda: list(MODELS),
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
        str | None,
        typer.Option(
            help="Start from these trained weights: a .safetensors file, a run's folder, a name or an address.",
            show_default="fresh ones",
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
    own_task: OwnTaskOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    model_settings: dict[str, Any] | None = None,
) -> None:
    """Train a model on a task.

    Everything goes to the run's folder: config, versions and command, log (JSON lines and TensorBoard), checkpoints.
    Ctrl-C saves and ends with code 130; --resume RUN goes on, to the same bits as if nothing had happened.

    Several machines or processes in step: torchrun --nproc-per-node 2 -m sparsam.lab.cli train ...
    """
    from sparsam.lab.training import user_classes
    from sparsam.lab.training.loop import train as run_training
    from sparsam.lab.training.resume import check_accepted, previous_config

    if None not in (task, own_task) and task != own_task:
        raise typer.BadParameter(f"names {own_task}, and TASK names {task}", param_hint="--task")
    task = task or own_task
    if task is not None and user_classes.is_own(task):
        user_classes.use_task(task)
    for name in logger or []:
        user_classes.use_logger(name)
    if weights is not None and weights.startswith(("hf:", "http:", "https:")):
        weights = str(find(weights))
    changes: dict[str, Any] = {
        "model.name": model, **{f"model.{key}": value for key, value in (model_settings or {}).items()},
        "seed": seed, "steps": steps, "seconds": seconds, "stop_below": stop_below, "batch_size": batch_size,
        "optimizer.name": optimizer, "optimizer.learning_rate": learning_rate, "optimizer.clip": clip,
        "workers": workers, "device": device, "curriculum.max_level": max_level, "task.name": task,
        "weights": weights, "loggers": logger or None,
    }  # fmt: skip
    going_on = None
    if resume is not None:
        from sparsam.lab.training.folder import RunFolder

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
    _refuse_conflicts(changes, settings or [])
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


def _refuse_conflicts(changes: dict[str, Any], settings: list[str]) -> None:
    """An option and a --set that say different things of one setting: neither is the one that was meant."""
    for setting in settings:
        path, _, text = setting.partition("=")
        value = changes.get(path)
        if value is not None and text not in (str(value), json.dumps(value)):
            told = f"expected {value!r} as the option beside it says, or no such option"
            raise ValueError(f"--set {path}: {told}, got {text}")


command = with_model_options(train)
