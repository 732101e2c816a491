"""What an approximate index does to training: error reached, and recall along the sequences, beside exact search.

    python -m benchmarks.ann_training docs/bench
    python -m benchmarks.ann_training runs/scan --indexes scan --seeds 0 --tasks recall --seconds 500

SAM learns copy and recall as in figure 2 (same tasks, sizes and optimizer), with each index from the same seeds and by
the same rules. The full rate is not stable, so from the first evaluation below 1 bit on it falls tenfold every 5,000
minibatches, down to a twentieth; the norm of the gradient is clipped to 0.1. A run ends when the last four evaluations,
of 256 fresh sequences each, have less than 0.02 bits wrong on average. The error it is given is that of its last
weights on 2,048 other sequences, with its index and with exact search.

Recall is that of the true K rows, and of the most similar one, along sequences of the largest training size: once early
in training, when words crowd, and once at the end.

Runs that the JSON has already are not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks.recall import recall_along
from benchmarks.report import as_record
from sparsam import indexes
from sparsam.lab.recipes.figure2 import MODELS, OPTIMIZER, TASKS
from sparsam.lab.recipes.record import text

# A memory of this task holds fewer words than the default at which `Auto` changes over, so it does earlier here.
INDEXES: dict[str, indexes.Index] = {
    "linear": sparsam.Linear(),
    "scan": sparsam.Scan(checks=16),  # by default it scores all of so few words
    "lsh": sparsam.LSH(),
    "lsh-64": sparsam.LSH(checks=64, few=indexes.LARGEST),
    "kdtree": sparsam.KDForest(checks=32),
    "kdtree-64": sparsam.KDForest(checks=64),
    "auto": sparsam.Auto(exact_until=64),
}
SEEDS = (0, 1, 2, 3, 4)
MOST = {"copy": 20_000, "recall": 20_000}  # minibatches
BATCH, EVERY, EARLY = 8, 250, 500
SOLVED, OVER = 0.02, 4  # bits, a mean over this many evaluations
BEGINS, TENFOLD, LEAST = 1.0, 5_000, 0.05  # below 1 bit the rate falls tenfold every 5,000 minibatches, to 0.05
CLIP = 0.1


def rate_at(step: int, begun: int | None) -> float:
    """The learning rate after minibatch `step`; `begun` had the first evaluation below `BEGINS` bits."""
    share = 1.0 if begun is None else max(LEAST, 0.1 ** ((step - begun) / TENFOLD))
    return share * OPTIMIZER.learning_rate


def is_solved(errors: list[float]) -> bool:
    return len(errors) >= OVER and sum(errors[-OVER:]) / OVER < SOLVED


def train(name: str, index: str, seed: int, most: int, seconds: float = math.inf) -> dict[str, Any]:
    """One run: loss and error along it, recall early and late, the final error with the index and with exact search."""
    train_task, test_task = TASKS[name].build(for_training=True), TASKS[name].build()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = _model(train_task, INDEXES[index])
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=OPTIMIZER.learning_rate, alpha=OPTIMIZER.decay, eps=OPTIMIZER.epsilon
    )
    losses: list[float] = []
    errors: list[float] = []
    total, early, begun, start = 0.0, (0.0, 0.0), None, time.monotonic()
    for step in range(1, most + 1):
        batch = train_task.sample(BATCH, generator)
        loss = train_task.loss(model(batch.inputs)[0], batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        total += loss.item()
        if step == EARLY:
            early = recall_on(model, test_task)
        if step % EVERY:
            continue
        losses.append(total / EVERY)
        errors.append(error_of(model, test_task, 256, seed=step))
        total = 0.0
        if begun is None and errors[-1] < BEGINS:
            begun = step
        optimizer.param_groups[0]["lr"] = rate_at(step, begun)
        if is_solved(errors) or time.monotonic() - start > seconds:
            break
    spent = time.monotonic() - start
    exact = _model(train_task, sparsam.Linear())
    exact.load_state_dict(model.state_dict())
    return {
        "task": name,
        "index": index,
        "seed": seed,
        "minibatches": EVERY * len(errors),
        "seconds": round(spent, 1),
        "solved": is_solved(errors),
        "losses": losses,
        "errors": errors,
        "final error": error_of(model, test_task, 2048, seed=0),
        "final error with exact search": error_of(exact, test_task, 2048, seed=0),
        "recall early": early,
        "recall late": recall_on(model, test_task),
    }


def _model(task: Any, index: indexes.Index) -> sparsam.SAM:
    size = MODELS["sam-linear"].memory_size
    return sparsam.SAM(task.input_size, task.output_size, memory_size=size, index=index, engine="native", start="plain")


def error_of(model: sparsam.SAM, task: Any, sequences: int, seed: int, batch_size: int = 32) -> float:
    """Bits wrong per sequence."""
    generator = torch.Generator().manual_seed(1_000_000 + seed)
    errors = []
    with torch.no_grad():
        for _ in range(sequences // batch_size):
            batch = task.sample(batch_size, generator)
            errors.append(next(iter(task.errors(model(batch.inputs)[0], batch).values())))
    return sum(errors) / len(errors)


def recall_on(model: sparsam.SAM, task: Any) -> tuple[float, float]:
    batch = task.sample_size(4, torch.Generator().manual_seed(7), task.max_size)
    return recall_along(model, batch.inputs)


HEADER = """\
| task | index | seed | minibatches | bits wrong | same weights, exact search | recall of K (first), early | late |
|---|---|---|---|---|---|---|---|"""


def table_row(run: dict[str, Any]) -> str:
    early, late = ("{:.3f} ({:.3f})".format(*run[when]) for when in ("recall early", "recall late"))
    return (
        f"| {run['task']} | {run['index']} | {run['seed']} | {run['minibatches']:,} | {run['final error']:.3f} | "
        f"{run['final error with exact search']:.3f} | {early} | {late} |"
    )


SUMMARY_HEADER = """\
| task | index | seeds | solved | minibatches | bits wrong, mean (all seeds) | same weights, exact search | \
recall of K (first), early | late | ms per minibatch |
|---|---|---|---|---|---|---|---|---|---|"""


def summary_rows(runs: list[dict[str, Any]]) -> list[str]:
    """One line for each task and index, over its seeds."""
    lines = []
    for name in MOST:
        for index in INDEXES:
            some = sorted((r for r in runs if (r["task"], r["index"]) == (name, index)), key=lambda r: r["seed"])
            if not some:
                continue

            def mean(key: str, part: int | None = None, some: list[dict[str, Any]] = some) -> float:
                return sum(r[key] if part is None else r[key][part] for r in some) / len(some)

            steps = sorted(r["minibatches"] for r in some)
            errors = ", ".join(f"{r['final error']:.3f}" for r in some)
            early, late = (f"{mean(when, 0):.3f} ({mean(when, 1):.3f})" for when in ("recall early", "recall late"))
            took = 1000 * sum(r["seconds"] for r in some) / sum(steps)
            solved = sum(r["solved"] for r in some)
            lines.append(
                f"| {name} | {index} | {len(some)} | {solved} | {steps[0]:,} to {steps[-1]:,} | "
                f"{mean('final error'):.3f} ({errors}) | {mean('final error with exact search'):.3f} | "
                f"{early} | {late} | {took:.0f} |"
            )
    return lines


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """Error over minibatches: a row a task, a column an index, a line a seed, and exact search in grey behind them."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    shown = [index for index in INDEXES if any(r["index"] == index for r in runs)]
    figure, axes = new_figure(2.1 * len(shown) + 1, 5.2, rows=len(MOST), columns=len(shown), sharex=True, sharey="row")
    for row, name in enumerate(MOST):
        for column, index in enumerate(shown):
            axis = axes[row, column]
            for which, colour, width in (("linear", "0.8", 0.8), (index, COLOURS[row], 1.2)):
                for run in (r for r in runs if (r["task"], r["index"]) == (name, which)):
                    steps = [EVERY * (j + 1) for j in range(len(run["errors"]))]
                    errors = [max(error, SOLVED / 4) for error in run["errors"]]  # zero has no place on a log axis
                    axis.semilogy(steps, errors, "-", color=colour, linewidth=width)
                    axis.plot(steps[-1], errors[-1], "o", color=colour, markersize=3)
            axis.axhline(SOLVED, color="0.6", linewidth=0.8, linestyle=":")
            axis.set_title(f"{name}, {index}", fontsize=9)
            if row == len(MOST) - 1:
                axis.set_xlabel(f"minibatches of {BATCH}", fontsize=8)
            if column == 0:
                axis.set_ylabel("bits wrong per sequence", fontsize=8)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of ann_training.json and .png")
    parser.add_argument("--indexes", nargs="+", default=list(INDEXES), choices=list(INDEXES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--tasks", nargs="+", default=list(reversed(MOST)), choices=list(MOST))
    parser.add_argument("--seconds", type=float, default=math.inf, help="most for each run")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "ann_training.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []
    made = {(run["task"], run["index"], run["seed"]) for run in runs}
    print(HEADER)
    for seed in given.seeds:
        for name in given.tasks:
            for index in given.indexes:
                if (name, index, seed) in made:
                    continue
                runs.append(train(name, index, seed, MOST[name], given.seconds))
                path.write_text(text(as_record("ann_training", {"solved": SOLVED, "runs": runs}, sys.argv[1:])))
                print(table_row(runs[-1]), flush=True)
    print("\n".join(["", SUMMARY_HEADER, *summary_rows(runs)]))
    plot(runs, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
