"""``sparsam train``: start a run, or go on with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

_Model = "Model"
_Run = "Run"


def train(
    task: Annotated[
        str | None, typer.Argument(help="copy, recall, sort, babi or omniglot.", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="lstm, ntm, dam, sam, dnc or sdnc.", rich_help_panel=_Model)] = None,
    memory_size: Annotated[int | None, typer.Option(help="Words in memory, N.", rich_help_panel=_Model)] = None,
    word_size: Annotated[int | None, typer.Option(help="Width of a word, W.", rich_help_panel=_Model)] = None,
    hidden_size: Annotated[int | None, typer.Option(help="Width of the controller, H.", rich_help_panel=_Model)] = None,
    num_heads: Annotated[int | None, typer.Option(help="Access heads, R.", rich_help_panel=_Model)] = None,
    k: Annotated[int | None, typer.Option(help="Words read per head, K.", rich_help_panel=_Model)] = None,
    index: Annotated[str | None, typer.Option(help="linear (exact), kdtree or lsh.", rich_help_panel=_Model)] = None,
    engine: Annotated[str | None, typer.Option(help="auto, reference, native or cuda.", rich_help_panel=_Model)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. [default: runs/TASK-MODEL-SEED]")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this folder; options given beside it change its config."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Start from a config.json; other options change it.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Start from these trained weights: a .safetensors file or a run's folder.")
    ] = None,
    seed: Annotated[int | None, typer.Option(rich_help_panel=_Run)] = None,
    steps: Annotated[int | None, typer.Option(help="Minibatches.", rich_help_panel=_Run)] = None,
    seconds: Annotated[float | None, typer.Option(help="End after this wall time.", rich_help_panel=_Run)] = None,
    stop_below: Annotated[
        float | None, typer.Option(help="End when the evaluated error is below.", rich_help_panel=_Run)
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sequences per minibatch.", rich_help_panel=_Run)] = None,
    optimizer: Annotated[str | None, typer.Option(help="rmsprop or adam.", rich_help_panel=_Run)] = None,
    learning_rate: Annotated[float | None, typer.Option(rich_help_panel=_Run)] = None,
    clip: Annotated[float | None, typer.Option(help="Largest gradient norm; 0 for none.", rich_help_panel=_Run)] = None,
    curriculum: Annotated[
        bool, typer.Option("--curriculum", help="Double the level whenever it is learnt.", rich_help_panel=_Run)
    ] = False,
    max_level: Annotated[int | None, typer.Option(help="Where the curriculum ends.", rich_help_panel=_Run)] = None,
    workers: Annotated[
        int | None, typer.Option(help="Asynchronous processes on shared parameters.", rich_help_panel=_Run)
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", rich_help_panel=_Run)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="Any other setting, e.g. --set task.settings.bits=4; may be repeated."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train a model on a task.

    Everything goes to the run's folder: config, versions and command, log (JSON lines and TensorBoard), checkpoints.
    Ctrl-C saves and ends with code 130; --resume RUN goes on, to the same bits as if nothing had happened.

    Several machines or processes in step: torchrun --nproc-per-node 2 -m sparsam.cli train ...
    """
    from sparsam.training.config import CurriculumConfig, RunConfig
    from sparsam.training.folder import RunFolder
    from sparsam.training.loop import train as run_training

    changes = {
        "model.name": model, "model.memory_size": memory_size, "model.word_size": word_size,
        "model.hidden_size": hidden_size, "model.num_heads": num_heads, "model.k": k, "model.index": index,
        "model.engine": engine, "seed": seed, "steps": steps, "seconds": seconds, "stop_below": stop_below,
        "batch_size": batch_size, "optimizer.name": optimizer, "optimizer.learning_rate": learning_rate,
        "optimizer.clip": clip, "workers": workers, "device": device, "curriculum.max_level": max_level,
        "task.name": task, "weights": weights,
    }  # fmt: skip
    if resume is not None:
        base = RunFolder(resume).config()
    elif config is not None:
        base = RunConfig.load(config)
    elif task is None:
        raise typer.BadParameter("name a task, or a run to --resume", param_hint="TASK")
    else:
        base = RunConfig()
    if curriculum and base.curriculum is None:
        base.curriculum = CurriculumConfig()
    given = [f"{path}={value}" for path, value in changes.items() if value is not None]
    final = base.with_settings([*given, *(settings or [])])
    if resume is None and config is None:
        final.name = f"{final.task.name}-{final.model.name}-{final.seed}"
    folder = resume or out or Path("runs") / final.name
    outcome = run_training(final, folder, resume=resume is not None, quiet=quiet)
    errors = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in outcome.evaluation.items())
    print(
        f"{outcome.reason} after {outcome.step:,} minibatches and {outcome.seconds:.1f} s: {errors or 'no evaluation'}"
    )
    print(f"run folder: {folder}")
    if outcome.reason == "interrupted":
        print(f"go on with: sparsam train --resume {folder}")
        sys.exit(128 + (outcome.signal or 2))
