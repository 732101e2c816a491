"""Why a recurrent controller leaves its memory alone: what is read, and what its interface learns from, at first.

    python -m benchmarks.first_minibatches --seeds 0 1 2 --out runs/bench/first_minibatches.json

SAM on recall of 8 pairs as in `bench learn`, with five ways to begin. For each 100 minibatches: the share of the last
two steps' reads that fell on words written while the asked pair was shown (of words chosen evenly it would be 1/8), the
share of reads on words written at all, and the parts of the gradient's norm at the rows of the interface that make
queries and write words.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sparsam
from benchmarks.learn_tasks import TASKS
from benchmarks.report import as_record
from sparsam.lab.recipes.record import text
from sparsam.start import STARTS

PAIRS, WINDOW = 8, 100
OPEN = STARTS["open"]
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"start": "plain"},
    "plain memory, controller that forgets": {"start": sparsam.Start(forget=OPEN.forget)},
    "open memory, plain controller": {"start": replace(OPEN, forget=0.0)},
    "open": {"start": "open"},
    "plain, feed-forward controller": {"start": "plain", "controller": "feedforward"},
}


def train(way: str, seed: int, minibatches: int, hidden: int = 100) -> list[dict[str, float]]:
    """A row for each window of a run."""
    torch.manual_seed(seed)
    task = TASKS["recall"]
    model = sparsam.SAM(task.inputs, task.outputs, hidden, memory_size=1024, **WAYS[way])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    rows: list[dict[str, float]] = []
    seen: dict[str, list[float]] = {"loss": [], "query": [], "write_word": []}
    for step in range(1, minibatches + 1):
        x, target, asked = task.draw(32, generator)
        y, _ = model(x)
        loss = task.loss(y[asked], target)
        optimizer.zero_grad()
        loss.backward()
        seen["loss"].append(float(loss.detach()))
        for name, part in parts_of_gradient(model).items():
            seen[name].append(part)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % WINDOW == 0:
            row = {name: statistics.median(values) for name, values in seen.items()}
            rows.append({"minibatch": step, **row, **reads_of(model, x)})
            seen = {name: [] for name in seen}
    return rows


def parts_of_gradient(model: sparsam.SAM) -> dict[str, float]:
    """The norms at the queries' and the write words' rows of the interface, over that of the whole gradient."""
    offsets, fields = model.memory.interface.offsets(), model.memory.interface.fields
    whole = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    found = {}
    for field in fields:
        if field.name in ("query", "write_word"):
            part = slice(offsets[field.name], offsets[field.name] + field.size)
            both = [p.grad[part].norm() for p in model.interface.parameters() if p.grad is not None]
            found[field.name] = float(torch.stack(both).norm() / whole)
    return found


def reads_of(model: sparsam.SAM, x: Tensor) -> dict[str, float]:
    """Shares of the weight of reads: of all on words written before, of the last two steps' on the asked pair's."""
    with torch.no_grad():
        trace = model.trace(x)
    cue = 2 * PAIRS
    keys = x[0:cue:2, :, :-2]
    asked = (keys == x[cue, :, :-2]).all(-1).float().argmax(0)  # (B,)
    reads, written = trace.reads_and_writes()
    late = reads.time >= cue
    there = written.div(2, rounding_mode="floor") == asked[reads.batch]
    weight = reads.weight[late]
    summary = trace.summary()
    return {
        "asked_pair": float(weight[there[late] & (written[late] >= 0)].sum() / weight.sum()),
        "written_before": summary.written_before,
        "age": summary.age,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--minibatches", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/first_minibatches.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs: list[dict[str, Any]] = []
    for seed in given.seeds:
        for way in WAYS:
            runs.append({"way": way, "seed": seed, "rows": train(way, seed, given.minibatches)})
            last = runs[-1]["rows"][-1]
            shown = " ".join(f"{name} {value:.4g}" for name, value in last.items())
            print(f"{way}, seed {seed}: {shown}", flush=True)
            found = {"torch": torch.__version__, "runs": runs}
            given.out.write_text(text(as_record("first_minibatches", found, sys.argv[1:])))


if __name__ == "__main__":
    main()
