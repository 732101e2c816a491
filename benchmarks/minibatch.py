"""Seconds of one long minibatch of figure 3: associative recall of 4,000 pairs, forward and backward, by index.

    python -m benchmarks.minibatch --out runs/bench

B = 8, 2,000,000 words, full backpropagation through time, one cue; the model is a fresh one, or has the weights given,
and its words lie as training has put them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Line, Report
from sparsam.lab.recipes.figure3 import MODELS, TASKS
from sparsam.lab.training.config import ModelConfig

INDEXES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("linear", {}),
    "k-d forest, 32 checks": ("kdtree", {"checks": 32}),
    "k-d forest, 128 checks": ("kdtree", {}),
    "LSH": ("lsh", {}),
    "LSH, 8 tables, 256 probes and checks": ("lsh", {"tables": 8, "probes": 256, "checks": 256}),
}


def run(out: Path, weights: Path | None = None, pairs: int = 4_000, batch_size: int = 8, repeats: int = 2) -> Report:
    """Time every index on the same minibatch; print, and write minibatch.json."""
    report = Report("minibatch")
    task = TASKS["recall"].build()
    batch = task.sample_size(batch_size, torch.Generator().manual_seed(0), pairs)
    for name, (index, settings) in INDEXES.items():
        config = ModelConfig(**(MODELS["sam-linear"].to_dict() | {"index": index, "index_settings": settings}))
        model = config.build(task.input_size, task.output_size)
        if weights is not None:
            from sparsam.lab.training.checkpoint import load_weights

            model.load_state_dict(load_weights(weights)[0])
        seconds = min(_seconds(model, task, batch) for _ in range(repeats))
        report.raw[name] = {"seconds": seconds, "pairs": pairs, "batch_size": batch_size}
        report.add(Line(f"recall, {pairs:,} pairs, B = {batch_size}, {name}", seconds, "s"))
    print(report.write(out))
    return report


def _seconds(model: torch.nn.Module, task: Any, batch: Any) -> float:
    begin = time.perf_counter()
    task.loss(model(batch.inputs)[0], batch).backward()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minibatch", description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, help="a trained model, e.g. weights/recall-curriculum-sam.safetensors")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    given = parser.parse_args()
    run(given.out, given.weights)


if __name__ == "__main__":
    main()
