"""Induction and selective copying: learned from 256 tokens, asked of a million.

Both are easy to learn and hard to keep up: what was seen once must be told from everything that came since. The recipes
train on 16 to 256 tokens and test on up to 1,000,000, streamed in pieces.

A memory with a row for every token answers by search alone, and what it costs grows with what it holds. The models with
`selective` in their name begin with a nearly closed write gate (0.12 instead of 0.88) and learn to open it for what
matters. They are tested with 1,024 rows, however long the sequence, where a row counts as accessed from a weight of 0.5
on: a word that was written through a closed gate leaves its row the first to be written again. Recall alone does not
teach that; prices do (`sparsam.lab.recipes.baselines.prices`), in two runs that go on from a trained one. The first
tells what must be kept from the rest, the second opens and closes the gates for good and makes idle reads blunt:

    sparsam reproduce induction --model memory-selective --seeds 1 --out runs/induction
    sparsam reproduce induction --model memory-selective --seeds 1 --out runs/priced --set model.write_cost=0.1
        --set weights=runs/induction/induction-memory-selective-0 --set steps=400              (one line)
    sparsam reproduce induction --model memory-selective --seeds 1 --out runs/decided --set model.write_cost=0.3
        --set model.write_decided=0.1 --set model.read_cost=0.02 --set steps=700
        --set weights=runs/priced/induction-memory-selective-0                                  (one line)

Selective copying asks for an order as well. A memory layer has none, so something beside it must count: an LSTM, SAM's
controller, the recurrence with exact gates (`hold`) or counters (`count`), which have a price as well
(`model.count_cost`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparsam.lab.recipes import token_report
from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.mqar import CLOSED, OPTIMIZER, SAM_START, blocks
from sparsam.lab.recipes.token_lengths import kept_test
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig
from sparsam.lab.training.folder import RunFolder

_TRAINED = {"min_length": 16}
TASKS = {
    "induction": TaskConfig("induction", training=_TRAINED),
    "selective-copy": TaskConfig("selective_copy", training={**_TRAINED, "min_items": 1, "clustered": 0.5}),
}
_SAM = {"hidden_size": 128, "num_heads": 1}
MODELS: dict[str, dict[str, ModelConfig]] = {
    "induction": {
        "memory": blocks("memory", heads=1, words=32),
        "memory-selective": blocks("memory", heads=1, words=32, start=CLOSED),
        "sam": blocks("sam", heads=1, words=32, sam=_SAM),
        "attention": blocks("attention", "attention"),
        "delta": blocks("delta", "delta"),
        "lstm": blocks("lstm", "lstm"),
        "hold": blocks("hold", "hold"),
    },
    "selective-copy": {
        "hold-memory-selective": blocks("hold", "memory", heads=1, words=32, start=CLOSED),
        "count-memory-selective": blocks("count", "memory", heads=1, words=32, start=CLOSED),
        "lstm-memory-selective": blocks("lstm", "memory", heads=1, words=32, start=CLOSED),
        "sam-selective": blocks(
            "sam", heads=1, words=32, sam_start={**SAM_START, "write": -2.0, "forget": 0.0}, sam=_SAM
        ),
        "memory": blocks("memory", "memory", heads=1, words=32),
        "attention": blocks("attention", "attention"),
        "delta": blocks("delta", "delta"),
        "lstm": blocks("lstm", "lstm"),
        "hold": blocks("hold", "hold"),
    },
}
SMALL: dict[str, Any] = {"rows": 1024, "delta": 0.5}  # a memory whose cost does not depend on the length
LENGTHS = (256, 1_024, 4_096, 16_384)  # all models, with room for every word
LONG = (16_384, 131_072, 1_000_000)  # models that carry something of a fixed size
SEQUENCES, SECONDS_PER_TEST = 64, 300.0


@register
def induction(
    seeds: int = 3, budget: float | None = None, models: Sequence[str] | None = None, steps: int = 10_000
) -> Experiment:
    """`seeds` runs of each model, each of at most `budget` seconds."""
    return Experiment("induction", "Induction", _runs("induction", seeds, budget, models, steps), solved=0.005)


@register
def selective_copy(
    seeds: int = 3, budget: float | None = None, models: Sequence[str] | None = None, steps: int = 10_000
) -> Experiment:
    """`seeds` runs of each model, each of at most `budget` seconds."""
    runs = _runs("selective-copy", seeds, budget, models, steps)
    return Experiment("selective-copy", "Selective copying", runs, solved=0.005)


def _runs(
    task: str, seeds: int, budget: float | None, models: Sequence[str] | None, steps: int
) -> dict[str, RunConfig]:

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODELS[task][model],
            task=TASKS[task],
            optimizer=OPTIMIZER,
            batch_size=64,
            steps=steps,
            seconds=budget,
            stop_below=1e-4,
            eval_every=500,
            eval_batches=32,
            eval_batch_size=64,
            checkpoint_every=500,
            checkpoint_seconds=60.0,
        )

    runs = grid(config, [task], models or MODELS[task], seeds)
    return runs


def run_tests(run: Path) -> dict[str, Any]:
    """All tests of a run, each for at most `SECONDS_PER_TEST`."""
    found: dict[str, Any] = {}
    for size in LENGTHS:
        found = kept_test(run, size, sequences=SEQUENCES, seconds=SECONDS_PER_TEST)
    if "selective" in run.name.removeprefix("selective-copy"):
        for size in LONG:
            found = kept_test(run, size, sequences=8, device="cpu", seconds=SECONDS_PER_TEST, **SMALL)
    elif not any(mixer in run.name for mixer in ("memory", "sam", "attention")):
        for size in LONG[1:]:
            found = kept_test(run, size, sequences=8, device="cpu", seconds=SECONDS_PER_TEST)
    return found


def report(out: str | Path) -> str:
    """Test every finished run under `out` (once); a table, a picture, results.md."""
    out = Path(out)
    runs: dict[str, dict[str, Any]] = {}
    for folder in (RunFolder(path.parent) for path in sorted(out.glob("*/result.json"))):
        runs[folder.path.name] = run_tests(folder.path)
    text = "\n".join(["# Accuracy (%) over length", "", token_report.accuracy_table(runs), ""])
    (out / "results.md").write_text(text)
    token_report.draw_accuracy(runs, {}, out / "accuracy.png", "Accuracy over length", "tokens")
    return text
