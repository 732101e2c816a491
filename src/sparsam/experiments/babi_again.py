"""bAbI, a second part: each run of `sparsam reproduce babi` goes on, with the tasks that it has failed as half of all.

A task that is not understood while the rate is high stays so: when the rate has fallen the others are solved and it is
not. So the rate begins anew, and the tasks whose error on the validation stories is above 5% make up half of the
stories that are drawn; the others share the rest equally. Which tasks these are is read off each run by itself. All
else is as in the first part, but for facts of task 16, which are all told.

The first part is looked for beside this one: `runs/babi-again` goes on from `runs/babi`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparsam.experiments import babi as first_part
from sparsam.experiments.experiment import Experiment, grid, register
from sparsam.tasks.babi import FAILED
from sparsam.training.config import RunConfig

SHARE = 0.5  # of the stories are of tasks that have failed


@register
def babi_again(
    seeds: int = 3,
    budget: float | None = None,
    models: Sequence[str] = tuple(first_part.MODELS),
    steps: int = 20_000,
) -> Experiment:
    """One run for each of the first part's, of `steps` minibatches or at most `budget` seconds."""
    runs = first_part.babi(seeds, budget, ("augmented",), models, steps).runs

    def config(task: str, model: str) -> RunConfig:
        common = runs[f"{task}-{model}-0"]
        training = {name: value for name, value in common.task.training.items() if name != "easy_first"}
        return replace(common, task=replace(common.task, training=training), start=None, curriculum=None)

    title = "Question answering on the Babi tasks, gone on with those that had failed"
    return Experiment("babi-again", title, grid(config, ["babi"], models, seeds), solved=0.01, prepare=go_on)


def go_on(experiment: Experiment, out: Path) -> None:
    """Let every run begin with the weights of the first part, and draw what that has failed more often."""
    for name, config in experiment.runs.items():
        first = out.parent / "babi" / name
        if not (first / "result.json").exists():
            raise FileNotFoundError(
                f"{first}: expected a run of the first part that has ended; train it by: "
                f"sparsam reproduce babi --out {first.parent}"
            )
        file = first / "validation.json"
        found = json.loads(file.read_text()) if file.exists() else first_part.evaluate_run(first, "validation")
        errors = {int(task): error for task, error in found["tasks"].items()}
        settings = config.task.settings | {"emphasis": emphasis(errors)}
        experiment.runs[name] = replace(config, task=replace(config.task, settings=settings), weights=str(first))


def emphasis(errors: dict[int, float]) -> dict[str, float]:
    """How often each task's stories are drawn: those that have failed together `SHARE`, the others the rest."""
    failed = [task for task, error in errors.items() if error > FAILED]
    if len(failed) in (0, len(errors)):
        return {}
    factor = SHARE / (1 - SHARE) * (len(errors) - len(failed)) / len(failed)
    return {str(task): factor for task in failed}
