"""What an approximate index does to training: error reached, and recall along the sequences, beside exact search.

    python -m sparsam.bench.ann_training docs/bench

SAM learns copy and recall as in figure 2 (same tasks, sizes and optimizer; a fifth of the rate from the first
evaluation below 1 bit on, since the full one is not stable), with each index from the same seeds, until 256 sequences
have less than 0.02 bits wrong on average. Then, on fresh sequences: the error of the weights with the lowest such
average, and that of the same weights with exact search.

Recall is that of the true K rows, and of the most similar one, along sequences of the largest training size: once early
in training, when words crowd, and once at the end.

Runs that the JSON has already are not made again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

import sparsam
from sparsam import indexes
from sparsam.bench.recall import recall_along
from sparsam.recipes.figure2 import MODELS, OPTIMIZER, TASKS

# A memory of this task holds fewer words than the default at which `Auto` changes over, so it does earlier here.
INDEXES: dict[str, indexes.Index] = {
    "linear": sparsam.Linear(),
    "lsh": sparsam.LSH(),
    "kdtree": sparsam.KDForest(),
    "auto": sparsam.Auto(exact_until=64),
}
SEEDS = (0, 1, 2)
MOST = {"copy": 10_000, "recall": 10_000}  # minibatches
BATCH, EVERY, EARLY, SOLVED = 8, 250, 500, 0.02


def train(name: str, index: str, seed: int, most: int) -> dict[str, Any]:
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
    total, early, best = 0.0, (0.0, 0.0), model.state_dict()
    for step in range(1, most + 1):
        batch = train_task.sample(BATCH, generator)
        loss = train_task.loss(model(batch.inputs)[0], batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER.clip)
        optimizer.step()
        total += loss.item()
        if step == EARLY:
            early = recall_on(model, test_task)
        if step % EVERY:
            continue
        losses.append(total / EVERY)
        errors.append(error_of(model, test_task, 256, seed=1))
        total = 0.0
        if errors[-1] <= min(errors):
            best = {key: value.clone() for key, value in model.state_dict().items()}
        if errors[-1] < 1:
            optimizer.param_groups[0]["lr"] = OPTIMIZER.learning_rate / 5
        if errors[-1] < SOLVED:
            break
    exact = _model(train_task, sparsam.Linear())
    for each in (model, exact):
        each.load_state_dict(best)
    return {
        "task": name,
        "index": index,
        "seed": seed,
        "minibatches": EVERY * len(errors),
        "losses": losses,
        "errors": errors,
        "final error": error_of(model, test_task, 1024, seed=2),
        "final error with exact search": error_of(exact, test_task, 1024, seed=2),
        "recall early": early,
        "recall late": recall_on(model, test_task),
    }


def _model(task: Any, index: indexes.Index) -> sparsam.SAM:
    size = MODELS["sam-linear"].memory_size
    return sparsam.SAM(task.input_size, task.output_size, memory_size=size, index=index, engine="native")


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


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """Error over minibatches, one panel a task, one line a run."""
    from sparsam.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(11, 3.8, columns=len(MOST))
    for axis, name in zip(axes[0], MOST):
        for colour, index in zip(COLOURS, INDEXES):
            for i, run in enumerate(r for r in runs if (r["task"], r["index"]) == (name, index)):
                steps = [EVERY * (j + 1) for j in range(len(run["errors"]))]
                errors = [max(error, SOLVED / 4) for error in run["errors"]]  # zero has no place on a log axis
                axis.semilogy(steps, errors, "-", color=colour, label=None if i else index, linewidth=1.2)
                axis.plot(steps[-1], errors[-1], "o", color=colour, markersize=4)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel(f"minibatches of {BATCH}")
        axis.set_ylabel("bits wrong per sequence")
        if axis.lines:
            axis.legend(frameon=False)
        axis.axhline(SOLVED, color="0.6", linewidth=0.8, linestyle=":")
    save(figure, path)


def main(out: str) -> None:
    torch.set_num_threads(1)
    path = Path(out) / "ann_training.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []
    made = {(run["task"], run["index"], run["seed"]) for run in runs}
    print(HEADER)
    for seed in SEEDS:
        for name, most in reversed(MOST.items()):
            for index in INDEXES:
                if (name, index, seed) in made:
                    continue
                runs.append(train(name, index, seed, most))
                path.write_text(json.dumps({"solved": SOLVED, "runs": runs}, indent=1) + "\n")
                print(table_row(runs[-1]), flush=True)
    plot(runs, path.with_suffix(".png"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
