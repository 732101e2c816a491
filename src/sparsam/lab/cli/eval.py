"""`sparsam eval`: the errors of a trained model, at the sizes that are asked for."""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import argument, option, settings_option
from sparsam.lab.cli.model_options import CHOICES, RUN_OR_WEIGHTS, EngineOption, Json, OwnTaskOption
from sparsam.lab.cli.runs import complete_trained, find_run


def evaluate(
    run: Annotated[str | None, argument(RUN_OR_WEIGHTS, "the last run", autocompletion=complete_trained)] = None,
    size: Annotated[
        list[int] | None, option("Size of the sequences (items, pairs or keys); may be repeated.", "as trained", min=1)
    ] = None,
    batches: Annotated[
        int | None, option("Minibatches per size.", "8; all of the split for tasks over a data set", min=1)
    ] = None,
    batch_size: Annotated[int, option("Sequences per minibatch.", min=1)] = 32,
    memory_size: Annotated[int | None, option("Evaluate with this memory size.", "as trained")] = None,
    index: Annotated[
        str | None,
        option(f"Evaluate with this index: {', '.join(CHOICES['index'])}.", "as trained", names=CHOICES["index"]),
    ] = None,
    engine: EngineOption = None,
    split: Annotated[str, option("Split of a data set: validation or test.", names=("validation", "test"))] = "test",
    seed: Annotated[int, option("Random seed of the sequences.")] = 0,
    settings: Annotated[
        list[str] | None, settings_option("Any other setting, such as --set task.settings.cues=16; may be repeated.")
    ] = None,
    below: Annotated[float | None, option("Exit with code 1 unless every error is below this.", "no check")] = None,
    accept: Annotated[
        list[str] | None,
        option(
            "damage: take an older checkpoint if the newest is damaged; data: evaluate on other data.",
            names=("damage", "data"),
            metavar="NAME",
        ),
    ] = None,
    task: OwnTaskOption = None,
    as_json: Json = False,
) -> None:
    """Evaluate a trained model on new sequences.

    It is evaluated at each --size, or else at the sizes it was trained on.

    Examples:

        sparsam eval recall-sam --size 6 --size 60
        sparsam eval copy-sam --index linear
    """
    from sparsam.lab.training import user_classes
    from sparsam.lab.training.evaluate import evaluate as measure
    from sparsam.lab.training.resume import check_accepted
    from sparsam.lab.training.seeds import MinibatchSeeds
    from sparsam.lab.training.trained import load_model

    if task is not None:
        user_classes.use_task(task)
    accepted, found = check_accepted(accept or ()), _find(run)
    wanted: dict[str, Any] = {"memory_size": memory_size, "index": index, "engine": engine}
    changed = {key: value for key, value in wanted.items() if value is not None}
    model, learnt, config = load_model(found, settings or [], older="damage" in accepted, **changed)
    _compare(found, learnt, "data" in accepted)
    level = None
    if config.curriculum and not size:
        level = config.curriculum.max_level
        size = None if level else [config.curriculum.start]
    results: list[dict[str, Any]] = []
    sizes: list[int | None] = list(size) if size else [None]
    for exact in sizes:
        errors = measure(model, learnt, MinibatchSeeds(seed), batches, batch_size, level, exact, split)
        if exact is not None and hasattr(learnt, "chance"):
            errors = errors | {"chance": learnt.chance(exact)}
        results.append({"size": exact} | errors)
    _require_finite(results)
    if as_json:
        print(json.dumps(results if len(results) > 1 else results[0]))
    else:
        for row in results:
            print(table(row))
    headline = next(key for key in results[0] if key != "size")
    if below is not None and any(row[headline] >= below for row in results):
        raise typer.Exit(1)


def _find(run: str | None) -> Path:
    """A run, or weights by name or address where no run is called so."""
    from sparsam.weights import find, names

    try:
        return find_run(run)
    except FileNotFoundError:
        if run is None or (run not in names() and ":" not in run):
            raise
        return find(run)


def table(row: dict[str, Any]) -> str:
    """One evaluation as text: a line of its numbers, and under it one line for each of bAbI's tasks."""
    from sparsam.lab.data.babi_official import STEMS

    by_task = {key: value for key, value in row.items() if re.fullmatch(r"task_\d+", key)}
    name = "as trained" if row["size"] is None else f"size {row['size']:,}"
    rest = {key: value for key, value in row.items() if key != "size" and key not in by_task}
    lines = [f"{name}: " + ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in rest.items())]
    if by_task:
        lines.append(f"{'task':>4}  {'':30}  {'error':>7}")
        for number, error in sorted((int(key.removeprefix("task_")), value) for key, value in by_task.items()):
            failed = "  failed" if error > 0.05 else ""
            lines.append(f"{number:>4}  {STEMS.get(number, '').replace('-', ' '):30}  {error:>7.1%}{failed}")
    return "\n".join(lines)


def _compare(run: Path, task: Any, data_accepted: bool) -> None:
    """Say when versions differ from the run's; other data must be accepted."""
    from sparsam.lab.training.folder import RunFolder
    from sparsam.lab.training.resume import compare_origin

    folder = RunFolder(run)
    if not folder.origin_file.exists():
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare_origin(folder, getattr(task, "fingerprint", None), ["versions", *(["data"] if data_accepted else [])])
    for warning in caught:
        warnings.warn(
            str(warning.message).replace("may not end on the same bits; accepted", "numbers may differ"), stacklevel=2
        )


def _require_finite(results: list[dict[str, Any]]) -> None:
    from sparsam.lab.training.learner import NonFiniteLoss

    for row in results:
        wrong = [key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
        if wrong:
            raise NonFiniteLoss(f"the evaluation gave no number for {', '.join(wrong)}")
