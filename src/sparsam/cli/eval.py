"""``sparsam eval``: the errors of a trained model, at the sizes that are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run's folder, or a .safetensors file.")],
    size: Annotated[
        list[int] | None,
        typer.Option(help="Exact size (items, pairs, keys); may be repeated. [default: as trained]"),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(help="Minibatches per size. [default: 8, or all of a data set's split]")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Sequences per minibatch.")] = 32,
    memory_size: Annotated[int | None, typer.Option(help="Test with another memory size.")] = None,
    index: Annotated[str | None, typer.Option(help="Test with another index: linear, kdtree, lsh.")] = None,
    engine: Annotated[str | None, typer.Option(help="auto, reference, native or cuda.")] = None,
    split: Annotated[str, typer.Option(help="For tasks over a data set: validation or test.")] = "test",
    seed: Annotated[int, typer.Option()] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Any other setting, e.g. --set task.settings.cues=16."),
    ] = None,
    below: Annotated[float | None, typer.Option(help="Exit with code 1 unless every error is below this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a trained model on fresh episodes."""
    from sparsam.training.evaluate import evaluate as measure
    from sparsam.training.saved import load_model
    from sparsam.training.seeds import MinibatchSeeds

    wanted = {"memory_size": memory_size, "index": index, "engine": engine}
    changed = {key: value for key, value in wanted.items() if value is not None}
    model, task, config = load_model(run, settings or [], **changed)
    level = None
    if config.curriculum and not size:
        level = config.curriculum.max_level
        size = None if level else [config.curriculum.start]
    results: list[dict[str, Any]] = []
    sizes: list[int | None] = list(size) if size else [None]
    for exact in sizes:
        errors = measure(model, task, MinibatchSeeds(seed), batches, batch_size, level, exact, split)
        if exact is not None:
            errors = errors | {"chance": task.chance(exact)}
        results.append({"size": exact} | errors)
    if as_json:
        print(json.dumps(results if len(results) > 1 else results[0]))
    else:
        for row in results:
            name = "as trained" if row["size"] is None else f"size {row['size']:,}"
            print(f"{name}: " + ", ".join(f"{k.replace('_', ' ')} {v:.4g}" for k, v in row.items() if k != "size"))
    headline = next(key for key in results[0] if key != "size")
    if below is not None and any(row[headline] >= below for row in results):
        raise typer.Exit(1)
