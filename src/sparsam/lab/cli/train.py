"""`sparsam train`: start a run, or resume one."""

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
            help=f"{_or(TASKS)}, or your own task as module:Class.",
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
    out: Annotated[Path | None, typer.Option(help="The run's folder.", show_default="runs/TASK-MODEL-SEED")] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Continue this run: its folder, the beginning of its name, or 'last'. Other options change its "
            "config.",
            show_default="start a new run",
            autocompletion=complete_run,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Start from this config.json. Other options change it.", show_default="none")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Start from trained weights: a name, a .safetensors file, a run's folder or a URL.",
            show_default="new weights",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run that is already in the folder.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --resume: " + "; ".join(f"{name}: {what}" for name, what in ACCEPTABLE.items()) + ".",
            autocompletion=lambda: list(ACCEPTABLE),
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed of the weights and the data.", rich_help_panel=_Run, show_default=str(_DEFAULT.seed)
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Minibatches to train on.", rich_help_panel=_Run, show_default=f"{_DEFAULT.steps}"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds.", rich_help_panel=_Run, show_default="no limit")
    ] = None,
    stop_below: Annotated[
        float | None,
        typer.Option(help="Stop once the evaluated error is below this.", rich_help_panel=_Run, show_default="never"),
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
        typer.Option(help="Learning rate.", rich_help_panel=_Run, show_default=str(_DEFAULT.optimizer.learning_rate)),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="Clip the gradient norm to this; 0 for no clipping.",
            rich_help_panel=_Run,
            show_default=str(_DEFAULT.optimizer.clip),
        ),
    ] = None,
    curriculum: Annotated[
        bool,
        typer.Option(
            "--curriculum", help="Train with a curriculum: double the level once the loss is low.", rich_help_panel=_Run
        ),
    ] = False,
    max_level: Annotated[
        int | None, typer.Option(help="Last level of the curriculum.", rich_help_panel=_Run, show_default="no limit")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that train shared parameters asynchronously; 0 trains in this process.",
            rich_help_panel=_Run,
            show_default=str(_DEFAULT.workers),
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
            metavar="MODULE:CLASS",
            help="Your own logger as module:Class, in addition to TensorBoard; may be repeated.",
            rich_help_panel=_Run,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Any other setting, such as --set task.settings.bits=4; may be repeated.",
        ),
    ] = None,
    own_task: OwnTaskOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")] = False,
    model_settings: dict[str, Any] | None = None,
) -> None:
    """Train a model on a task, or resume a run.

    The run's folder holds its config, versions, command, log (JSON lines and TensorBoard) and checkpoints.
    Ctrl-C saves and exits with code 130. --resume continues and ends with the same bits as an uninterrupted run.

    Examples:

        sparsam train copy --model sam --steps 2000
        sparsam train recall --model sdnc --memory-size 1024 --k-links 4
        sparsam train --resume copy-sam --steps 4000
        torchrun --nproc-per-node 2 -m sparsam.lab.cli train copy --model sam
    """
    from sparsam.lab.training import user_classes
    from sparsam.lab.training.loop import train as run_training
    from sparsam.lab.training.resume import check_accepted, previous_config

    if None not in (task, own_task) and task != own_task:
        raise typer.BadParameter(f"expected {task}, as TASK says, got {own_task}", param_hint="--task")
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
        raise typer.BadParameter("expected a task, or a run to --resume", param_hint="TASK")
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
    spent = f"{outcome.step:,} minibatches and {outcome.seconds:.1f} s"
    print(f"ended ({outcome.reason}) after {spent}: {errors or 'no evaluation'}")
    print(f"run folder: {folder}")
    if outcome.reason == "interrupted":
        print(f"continue with: sparsam train --resume {folder}")
        sys.exit(128 + (outcome.signal or 2))


def _refuse_conflicts(changes: dict[str, Any], settings: list[str]) -> None:
    """Refuse an option and a --set that disagree about one setting."""
    for setting in settings:
        path, _, text = setting.partition("=")
        value = changes.get(path)
        if value is not None and text not in (str(value), json.dumps(value)):
            told = f"expected {value!r}, as its option says; give one of the two"
            raise ValueError(f"--set {path}: {told}, got {text}")


command = with_model_options(train)
