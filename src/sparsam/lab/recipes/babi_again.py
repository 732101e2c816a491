"""bAbI, a further part: each run of `sparsam reproduce babi` goes on, with the tasks that it has failed as half of all.

A task that is not understood while the rate is high stays so: when the rate has fallen the others are solved and it is
not. So the rate begins anew, and the tasks whose error on the validation stories is above 5% make up half of the
stories that are drawn; the others share the rest equally. Which tasks these are is read off each run by itself. All
else is as in the first part: where task 16 is among them it begins once more with what its answers need, else all of
its facts are told. A run that has failed nothing does not go on.

The part before is looked for beside this one: `runs/babi-again` goes on from `runs/babi`, `runs/babi-again-2` from
`runs/babi-again`, and so on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparsam.lab.recipes import babi as first_part
from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.tasks.babi.task import FAILED
from sparsam.lab.training.config import RunConfig

SHARE = 0.5  # of the stories are of tasks that have failed
AGAIN = re.compile(r"babi-again(-(?P<part>[1-9][0-9]*))?")


@register
def babi_again(
    seeds: int = 3, budget: float | None = None, models: Sequence[str] = tuple(first_part.MODELS), steps: int = 20_000
) -> Experiment:
    """One run for each of the first part's, of `steps` minibatches or at most `budget` seconds."""
    runs = first_part.babi(seeds, budget, ("augmented",), models, steps).runs

    def config(task: str, model: str) -> RunConfig:
        return runs[f"{task}-{model}-0"]

    title = "Question answering on the Babi tasks, gone on with those that had failed"
    return Experiment("babi-again", title, grid(config, ["babi"], models, seeds), solved=0.01, prepare=go_on)


def go_on(experiment: Experiment, out: Path) -> None:
    """Let every run begin with the weights of the part before, and draw what that has failed more often."""
    before = part_before(out)
    for name, config in list(experiment.runs.items()):
        first = before / name
        if not (first / "result.json").exists():
            raise FileNotFoundError(
                f"{first}: expected a finished run of the previous part; train it with: "
                f"sparsam reproduce {'babi-again' if AGAIN.fullmatch(before.name) else 'babi'} --out {before}"
            )
        errors = validation_errors(first)
        if all(error <= FAILED for error in errors.values()):
            del experiment.runs[name]
            continue
        settings = config.task.settings | {"emphasis": emphasis(errors)}
        changed = replace(config, task=replace(config.task, settings=settings), weights=str(first))
        easy = config.task.training["easy_first"]
        if all(errors[task] <= FAILED for task in easy):
            training = {setting: value for setting, value in config.task.training.items() if setting != "easy_first"}
            changed = replace(changed, task=replace(changed.task, training=training), curriculum=None)
        experiment.runs[name] = changed
    if not experiment.runs:
        raise ValueError(f"{before}: none of these runs has failed a task on the validation stories; nothing is left")


def part_before(out: Path) -> Path:
    """The folder whose runs those of `out` go on from."""
    match = AGAIN.fullmatch(out.name)
    part = int(match["part"] or 1) if match else 1
    return out.parent / {1: "babi", 2: "babi-again"}.get(part, f"babi-again-{part - 1}")


def validation_errors(run: Path) -> dict[int, float]:
    """Errors by task on the validation stories; asked anew where the run has gone on since they were."""
    file, ended = run / "validation.json", run / "result.json"
    if file.exists() and file.stat().st_mtime_ns >= ended.stat().st_mtime_ns:
        found = json.loads(file.read_text())
    else:
        found = first_part.evaluate_run(run, "validation")
    return {int(task): error for task, error in found["tasks"].items()}


def emphasis(errors: dict[int, float]) -> dict[str, float]:
    """How often each task's stories are drawn: those that have failed together `SHARE`, the others the rest."""
    failed = [task for task, error in errors.items() if error > FAILED]
    if len(failed) in (0, len(errors)):
        return {}
    factor = SHARE / (1 - SHARE) * (len(errors) - len(failed)) / len(failed)
    return {str(task): factor for task in failed}
