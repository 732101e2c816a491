"""Multi-query associative recall beside attention and a linear recurrence: accuracy and cost over pairs and length.

Two tasks. `zoology` is the setting of Arora et al. 2023: 8,192 tokens, 64 to 256 of them with 4 to 64 pairs in
training, up to 1,024 with 256 pairs in the test. `large` has 262,144 tokens, enough keys for 100,000 pairs; a token
is written with two digits of 512 (`sparsam.lab.tasks.tokens.task`), so that 256 pairs show a model all it needs. Its
tests go on to 100,000 pairs in 400,000 tokens, streamed in pieces; one of them, for as long as it takes, is

    python -m sparsam.lab.recipes.token_lengths runs/mqar/large-memory-0 100000 --index auto

`crowded` goes on from a run of `large`: half of its minibatches draw the keys from few digits, as near to each other as
keys are among 100,000. Crowded from the start, a model with one head learned to sum values up instead of keeping them
apart.

    sparsam reproduce mqar --task crowded --model memory --seeds 1 --set weights=runs/mqar/large-memory-0

All models have width 128 and 300,000 parameters in their blocks, the same optimiser and the same minibatches. Where
zoology draws the smallest slice five times as often as the others, here all are drawn alike.
`--set device=cuda` trains and tests on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparsam.lab.recipes import token_report
from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.token_lengths import kept_test, rows_for, usable_device
from sparsam.lab.recipes.token_tests import error_rate
from sparsam.lab.tasks.tokens.mqar import TESTED, TRAINED
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.folder import RunFolder

_LARGE = {"vocabulary": 2**18, "digits": 2, "slices": [list(part) for part in (*TRAINED, (1024, 256))]}
TASKS = {
    "zoology": TaskConfig("mqar", {"vocabulary": 8192, "slices": [list(part) for part in TRAINED]}),
    "large": TaskConfig("mqar", _LARGE),
}
CONTINUED = {"crowded": TaskConfig("mqar", _LARGE, training={"crowded": 0.5})}  # by name, from weights
PARAMETERS = 300_000
# A fresh interface writes half of each word to the rows that were just read, which wears away what was stored: with one
# head 70% were wrong after 1,200 minibatches, where an open start had none after 800. SAM's controller begins by
# forgetting, so that what it stores is about the present tokens.
START = {"write": 2.0, "reuse": -5.0, "sharpness": 3.0}
CLOSED = {**START, "write": -2.0}  # the write gate begins at 0.12: a model learns to open it for what matters
SAM_START = {**START, "words": 8.0, "forget": -4.0}


def blocks(
    *mixers: str,
    heads: int = 4,
    words: int = 64,
    start: dict[str, float] = START,
    sam_start: dict[str, float] = SAM_START,
    parameters: int = PARAMETERS,
    **settings: dict[str, Any],
) -> ModelConfig:
    """A model of width 128 with these mixers, its feed-forward parts as wide as makes all models alike in size."""
    starts = {name: first for name, first in {"memory": start, "sam": sam_start}.items() if name in mixers}
    return ModelConfig(
        "blocks",
        hidden_size=128,
        memory_size=8192,
        word_size=words,
        num_heads=heads,
        k=4,
        extra={"mixers": list(mixers), "parameters": parameters, "settings": settings, "start": starts},
    )


MODELS = {
    "memory": blocks("memory"),
    "memory-one-head": blocks("memory", heads=1),
    "memory-memory": blocks("memory", "memory"),
    "memory-attention": blocks("memory", "attention"),
    "sam": blocks("sam", sam={"hidden_size": 128, "num_heads": 2}),
    "attention": blocks("attention", "attention"),
    "delta": blocks("delta", "delta"),
    "lstm": blocks("lstm", "lstm"),
}
OPTIONAL = {  # asked for by name
    "memory-selective": blocks("memory", start=CLOSED),
    "memory-one-head-selective": blocks("memory", heads=1, words=128, start=CLOSED),
}
OPTIMIZER = OptimizerConfig(
    "adam", learning_rate=1e-3, final_rate=1e-4, epsilon=1e-8, warmup=200, hold=4_000, patience=20
)
LONG = (1_000, 10_000, 100_000)  # pairs
LONG_INDEXES = ("linear", "auto")
SECONDS_PER_TEST = 120.0
SEQUENCES, BATCH = 128, 32  # of a test slice


@register
def mqar(
    seeds: int = 3,
    budget: float | None = None,
    tasks: Sequence[str] = tuple(TASKS),
    models: Sequence[str] = tuple(MODELS),
    steps: int = 20_000,
) -> Experiment:
    """`seeds` runs of each model on each task, each of at most `budget` seconds."""

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=(MODELS | OPTIONAL)[model],
            task=(TASKS | CONTINUED)[task],
            optimizer=OPTIMIZER,
            batch_size=32,
            steps=steps,
            seconds=budget,
            stop_below=1e-4,
            eval_every=500,
            eval_batches=10,
            eval_batch_size=16,
            checkpoint_every=500,
            checkpoint_seconds=60.0,
        )

    runs = grid(config, tasks, models, seeds)
    return Experiment("mqar", "Multi-query associative recall", runs, solved=0.005)


def slice_errors(run: str | Path) -> dict[str, Any]:
    """A run's errors on each of zoology's test slices, kept beside it as slices.json."""
    from sparsam.lab.training.trained import load_model

    model, task, config = load_model(run, memory_size=rows_for(1024, 4))
    device = usable_device(config.device)
    model.to(device)
    found = {}
    for length, pairs in TESTED:
        draw = partial(task.sample_slice, BATCH, length=length, pairs=pairs)
        found[f"{pairs} pairs in {length}"] = error_rate(model, task, draw, SEQUENCES // BATCH, config.seed + 1, device)
    return found


def report(out: str | Path) -> str:
    """Test every finished run under `out` (once), measure what each model costs (once); tables, plots, results.md."""
    out = Path(out)
    slices: dict[str, dict[str, Any]] = {}
    long: dict[str, dict[str, Any]] = {}
    models: dict[str, ModelConfig] = {}
    device = "cpu"
    for folder in (RunFolder(path.parent) for path in sorted(out.glob("*/result.json"))):
        name, config = folder.path.name, folder.config()
        device = usable_device(config.device)
        models.setdefault(name.partition("-")[2].rpartition("-")[0], config.model)
        slices[name] = token_report.once(folder.path / "slices.json", partial(slice_errors, folder.path))
        if name.startswith(("large", "crowded")):
            long[name] = _long_tests(folder.path)
    cost = token_report.costs(out / "cost.json", models, device)
    text = "\n".join(
        [
            "# Multi-query associative recall: accuracy (%) by slice",
            "",
            token_report.accuracy_table(slices),
            "",
            *(["# Long sequences", "", token_report.long_table(long), ""] if long else []),
            "# Cost of one sequence",
            "",
            token_report.cost_table(cost),
            "",
        ]
    )
    (out / "results.md").write_text(text)
    for start in TASKS | CONTINUED:
        some = {name: found for name, found in slices.items() if name.startswith(start)}
        if some:
            title = f"MQAR ({start}): accuracy over pairs"
            token_report.draw_accuracy(some, long, out / f"{start}-accuracy.png", title)
    token_report.draw_costs(cost, out / "cost.png")
    return text


def _long_tests(run: Path) -> dict[str, Any]:
    """All long tests of a run, each for at most `SECONDS_PER_TEST`."""
    searches = any(mixer in run.name for mixer in ("memory", "sam"))
    found: dict[str, Any] = {}
    for pairs in LONG:
        for index in LONG_INDEXES if searches else LONG_INDEXES[:1]:
            found = kept_test(run, pairs, "pairs", index=index, device="cpu", seconds=SECONDS_PER_TEST)
    return found
