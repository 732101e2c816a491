"""Tests of a trained model over tokens at one length, kept beside its weights: any length, index, memory and device.

    python -m sparsam.lab.recipes.token_lengths runs/induction/induction-memory-0 1000000 --sequences 16

One result is a line of `lengths.json` in the run's folder; what is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sparsam.lab.recipes import token_cost
from sparsam.lab.recipes.token_tests import error_rate
from sparsam.lab.training.trained import load_model, read_saved

FILE = "lengths.json"


def rows_for(tokens: int, heads: int) -> int:
    """Rows for every word that could be written: one for each head and token, as a power of two."""
    return 1 << (tokens * heads - 1).bit_length()


def errors_at(
    run: str | Path,
    size: int,
    sequences: int = 1,
    index: str = "linear",
    rows: int | None = None,
    delta: float | None = None,
    k: int | None = None,
    device: str | None = None,
    batch: int = 8,
    seconds: float | None = None,
) -> dict[str, Any]:
    """A run's errors on fresh sequences of `size`, at most `batch` of them at a time.

    `rows`: of the memory; None for one row for each word that could be written. `delta`: from which weight on a row
    counts as accessed; None for the model's own. `k`: words that a head reads; None for as many as in training, where
    more than one shows the model what it should have read. `device`: None for the one that the run was trained on,
    where there is one here.
    """
    _, config, _ = read_saved(run)
    at_once = min(batch, sequences)
    task: Any = config.task.build()
    heads = config.model.num_heads or 1
    if rows is None:
        longest = task.sample_size(1, torch.Generator(), size).inputs.shape[0]
        rows = rows_for(longest, heads)
    changed: dict[str, Any] = {} if k is None else {"k": k}
    model, task, config = load_model(run, memory_size=rows, index=index, **changed)
    if delta is not None:
        memories: list[Any] = [module for module in model.modules() if hasattr(module, "delta")]
        for memory in memories:
            memory.delta = delta
    where = device or usable_device(config.device)
    draw = partial(task.sample_size, at_once, size=size)
    count = -(-sequences // at_once)
    model.to(where)
    before = token_cost.held_bytes(where)
    found = error_rate(model, task, draw, count, config.seed + 1, where, seconds=seconds)
    return {
        **found,
        "sequences": count * at_once,
        "index": index,
        "memory_size": rows,
        "delta": delta,
        "k": config.model.k if k is None else k,
        "device": where,
        "peak_bytes": token_cost.peak_bytes(where) - before,
    }


def usable_device(trained_on: str) -> str:
    """The device that a run was trained on, or the CPU on a machine without it."""
    return "cpu" if trained_on.startswith("cuda") and not torch.cuda.is_available() else trained_on


def name_of(
    size: int,
    unit: str,
    index: str = "linear",
    rows: int | None = None,
    delta: float | None = None,
    k: int | None = None,
) -> str:
    """What a test is called in the file and in tables: its size, then what is not exact search with room for all."""
    parts = [f"{size:,} {unit}"]
    parts += [] if index == "linear" else [index]
    parts += [] if rows is None else [f"{rows:,} rows"]
    parts += [] if delta is None else [f"delta {delta:g}"]
    parts += [] if k is None else [f"K {k}"]
    return ", ".join(parts)


def kept_test(run: str | Path, size: int, unit: str = "tokens", again: bool = False, **options: Any) -> dict[str, Any]:
    """`errors_at`, measured once (or `again`) and kept; returns all tests that are there."""
    file = (Path(run) if Path(run).is_dir() else Path(run).parent) / FILE
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    name = name_of(size, unit, **{key: options[key] for key in ("index", "rows", "delta", "k") if key in options})
    if again or name not in found:
        result = errors_at(run, size, **options)
        found = json.loads(file.read_text()) if file.exists() else {}  # others may have written meanwhile
        found[name] = result
        file.write_text(json.dumps(found, indent=2) + "\n")
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("size", type=int)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--index", default="linear")
    parser.add_argument("--rows", type=int, help="of the memory; as many as words could be written where not given")
    parser.add_argument("--delta", type=float, help="weight from which on a row counts as accessed")
    parser.add_argument("--k", type=int, help="words that a head reads; as in training where not given")
    parser.add_argument("--device", help="where it runs; as in training where not given")
    parser.add_argument("--batch", type=int, default=8, help="sequences at a time")
    parser.add_argument("--seconds", type=float, help="longest time")
    parser.add_argument("--threads", type=int, help="of torch and the engine")
    given = vars(parser.parse_args(arguments))
    threads = given.pop("threads")
    if threads is not None:
        torch.set_num_threads(threads)
    run, size = given.pop("run"), given.pop("size")
    unit = "pairs" if read_saved(run)[1].task.name == "mqar" else "tokens"
    found = kept_test(run, size, unit, **given)
    name = name_of(size, unit, given["index"], given["rows"], given["delta"], given["k"])
    print(json.dumps({name: found[name]}, indent=2))
    return found[name]


if __name__ == "__main__":
    main()
