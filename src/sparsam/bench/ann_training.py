"""What an approximate index does to training: error reached, and recall along the sequences, beside exact search.

    python -m sparsam.bench.ann_training [out.json]

SAM learns to copy and to recall, with each index from the same seeds. Recall is that of the true K rows, and of the
most similar one, over test sequences of the largest training size: once early in training, when words crowd, and once
at the end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

import sparsam
from sparsam import tasks
from sparsam.bench.recall import recall_along

INDEXES = ("linear", "kdtree", "lsh")
SEEDS = (0, 1)
TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # settings of the task, and in addition while training
    "copy": ({"min_size": 1, "max_size": 10}, {}),
    "recall": ({"paired": True, "min_size": 1, "max_size": 6}, {"cues": 6}),
}
STEPS = {"copy": 4000, "recall": 15_000}
BATCH, MEMORY, POINTS = 16, 1024, 40


def train(name: str, index: str, seed: int, steps: int) -> dict[str, Any]:
    """One run: the loss along it, the final error, recall early and late."""
    settings, extra = TASKS[name]
    train_task, test_task = tasks.build(name, **settings, **extra), tasks.build(name, **settings)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = sparsam.SAM(train_task.input_size, train_task.output_size, memory_size=MEMORY, index=index, engine="native")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses, recalls, total = [], [], 0.0
    every = max(1, steps // POINTS)
    for step in range(1, steps + 1):
        batch = train_task.sample(BATCH, generator)
        loss = train_task.loss(model(batch.inputs)[0], batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        total += loss.item()
        if step % every == 0:
            losses.append(total / every)
            total = 0.0
        if step in (steps // 20, steps):
            recalls.append(recall_on(model, test_task))
    generator = torch.Generator().manual_seed(12345)
    errors = []
    with torch.no_grad():
        for _ in range(32):
            batch = test_task.sample(BATCH, generator)
            errors.append(next(iter(test_task.errors(model(batch.inputs)[0], batch).values())))
    return {
        "task": name,
        "index": index,
        "seed": seed,
        "losses": losses,
        "error": sum(errors) / len(errors),
        "recall early": recalls[0],
        "recall late": recalls[-1],
    }


def recall_on(model: sparsam.SAM, task: Any) -> tuple[float, float]:
    batch = task.sample_size(4, torch.Generator().manual_seed(7), task.max_size)
    return recall_along(model, batch.inputs)


def main(out: str | None = None) -> None:
    torch.set_num_threads(1)
    rows = []
    print("| task | index | seed | last loss | bits wrong per sequence | recall of K (first), early | late |")
    print("|---|---|---|---|---|---|---|")
    for name in TASKS:
        for seed in SEEDS:
            for index in INDEXES:
                row = train(name, index, seed, STEPS[name])
                rows.append(row)
                early, late = ("{:.3f} ({:.3f})".format(*row[when]) for when in ("recall early", "recall late"))
                print(
                    f"| {name} | {index} | {seed} | {row['losses'][-1]:.4f} | {row['error']:.3f} | {early} | {late} |",
                    flush=True,
                )
                if out is not None:
                    Path(out).write_text(json.dumps({"steps": STEPS, "runs": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
