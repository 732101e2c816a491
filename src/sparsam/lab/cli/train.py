"""`sparsam train`: start a run, or resume one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import argument, option, settings_option
from sparsam.lab.cli.model_options import OwnTaskOption, Quiet, with_model_options
from sparsam.lab.cli.runs import complete as complete_run
from sparsam.lab.cli.runs import find_run
from sparsam.lab.tasks import TASKS
from sparsam.lab.training.config import OPTIMIZERS, CurriculumConfig, RunConfig
from sparsam.lab.training.resume import ACCEPTABLE
from sparsam.lab.training.trained import ADDRESSES
from sparsam.models import MODELS
from sparsam.weights import find

_DEFAULT = RunConfig()


def _or(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"


def _run(text: str, default: Any = True, names: Iterable[str] = (), *flags: str, **more: Any) -> Any:
    return option(text, default, *flags, names=names, rich_help_panel="Run", **more)


def train(
    task: Annotated[str | None, argument(f"{_or(TASKS)}, or your own task as module:Class.", False, TASKS)] = None,
    model: Annotated[
        str | None, option(f"{_or(MODELS)}.", _DEFAULT.model.name, names=MODELS, rich_help_panel="Model")
    ] = None,
    out: Annotated[Path | None, option("The run's folder.", "runs/TASK-MODEL-SEED")] = None,
    resume: Annotated[
        str | None,
        option(
            "Continue this run: its folder, the beginning of its name, or 'last'. Other options change its config.",
            "start a new run",
            autocompletion=complete_run,
        ),
    ] = None,
    config: Annotated[Path | None, option("Start from this config.json. Other options change it.", "none")] = None,
    weights: Annotated[
        str | None,
        option("Start from trained weights: a name, a .safetensors file, a run's folder or a URL.", "new weights"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run that is already in the folder.")] = False,
    accept: Annotated[
        list[str] | None,
        option(
            "With --resume: " + "; ".join(f"{name}: {what}" for name, what in ACCEPTABLE.items()) + ".",
            names=ACCEPTABLE,
            metavar="NAME",
        ),
    ] = None,
    seed: Annotated[int | None, _run("Random seed of the weights and the data.", _DEFAULT.seed)] = None,
    steps: Annotated[int | None, _run("Minibatches to train on.", _DEFAULT.steps)] = None,
    seconds: Annotated[float | None, _run("Stop after this many seconds.", "no limit")] = None,
    stop_below: Annotated[float | None, _run("Stop once the evaluated error is below this.", "never")] = None,
    batch_size: Annotated[int | None, _run("Sequences per minibatch.", _DEFAULT.batch_size)] = None,
    optimizer: Annotated[str | None, _run(f"{_or(OPTIMIZERS)}.", _DEFAULT.optimizer.name, OPTIMIZERS)] = None,
    learning_rate: Annotated[float | None, _run("Learning rate.", _DEFAULT.optimizer.learning_rate)] = None,
    clip: Annotated[
        float | None, _run("Clip the gradient norm to this; 0 for no clipping.", _DEFAULT.optimizer.clip)
    ] = None,
    curriculum: Annotated[
        bool, _run("Train with a curriculum: double the level once the loss is low.", True, (), "--curriculum")
    ] = False,
    max_level: Annotated[int | None, _run("Last level of the curriculum.", "no limit")] = None,
    workers: Annotated[
        int | None,
        _run("Processes that train shared parameters asynchronously; 0 trains in this process.", _DEFAULT.workers),
    ] = None,
    device: Annotated[str | None, _run("cpu, cuda or cuda:N.", _DEFAULT.device, ("cpu", "cuda"))] = None,
    logger: Annotated[
        list[str] | None,
        _run("Your own logger as module:Class, in addition to TensorBoard; may be repeated.", metavar="MODULE:CLASS"),
    ] = None,
    settings: Annotated[
        list[str] | None, settings_option("Any other setting, such as --set task.settings.bits=4; may be repeated.")
    ] = None,
    own_task: OwnTaskOption = None,
    quiet: Quiet = False,
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
    if weights is not None and weights.startswith(ADDRESSES):
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
