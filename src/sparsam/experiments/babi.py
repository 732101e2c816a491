"""SAM paper, supplementary tables on Babi: one model for all 20 tasks, six models and SAM with an ANN index.

The paper gives no settings for this experiment but the encoding. These are ours: 128 hidden units, 4 heads, one-hot
words of value 12 (`Babi` says why), training stories told with other names each time (`sparsam.tasks.babi_exchange`;
without, the models learn them by heart), the tasks that take longest drawn more often, and for the models with SAM's
interface first weights that use the memory from the start (`sparsam.training.start`): without them an SDNC stays at the
error of an LSTM for a long time. The run with the lowest validation error is the one that is tested. `--set
device=cuda` runs SAM and SDNC in the GPU kernels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from sparsam.data.babi_official import STEMS
from sparsam.experiments.experiment import Experiment
from sparsam.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.training.start import StartConfig

# How often a task's stories are drawn; all others 0.7.
EMPHASIS = {task: 0.7 for task in range(1, 21)}
EMPHASIS |= {
    2: 3.0,
    3: 2.0,
    4: 0.5,
    5: 1.0,
    11: 0.5,
    12: 0.5,
    13: 0.5,
    14: 2.0,
    15: 3.0,
    16: 3.0,
    17: 4.0,
    19: 4.0,
    20: 0.5,
}
TASK = TaskConfig(
    "babi", {"balance": "task", "emphasis": {str(t): f for t, f in EMPHASIS.items()}, "exchange": 1.0, "scale": 12.0}
)
_SIZES: dict[str, Any] = {"hidden_size": 128, "word_size": 32, "num_heads": 4}
_LARGE: dict[str, Any] = {**_SIZES, "memory_size": 2048, "extra": {"bypass_dropout": 0.1}}
MODELS = {
    "lstm": ModelConfig("lstm", hidden_size=256),
    "ntm": ModelConfig("ntm", memory_size=128, **_SIZES),
    "dam": ModelConfig("dam", memory_size=128, **_SIZES),
    "sam-linear": ModelConfig("sam", k=8, **_LARGE),
    "sam-ann": ModelConfig("sam", k=8, index="kdtree", **_LARGE),
    "dnc": ModelConfig("dnc", memory_size=128, **_SIZES),
    "sdnc": ModelConfig("sdnc", **_LARGE),
}
START = StartConfig(forget=1.0, write=1.0, reuse=-2.0, sharpness=2.0, words=2.0)
_RMSPROP = OptimizerConfig(learning_rate=3e-4, final_rate=3e-5, hold=60_000, warmup=200, patience=100)
_ADAM = OptimizerConfig("adam", learning_rate=1e-3, final_rate=1e-4, hold=60_000, warmup=200, patience=100)
OPTIMIZERS = dict.fromkeys(MODELS, _RMSPROP) | {"sam-linear": _ADAM, "sam-ann": _ADAM}

# The paper's table of best runs: error in percent of tasks 1 to 20.
PAPER = {
    "lstm": (
        28.8,
        57.3,
        53.7,
        0.7,
        3.5,
        17.6,
        18.5,
        20.9,
        18.2,
        34.0,
        9.0,
        5.5,
        6.3,
        56.1,
        49.3,
        53.2,
        41.7,
        8.4,
        76.4,
        1.9,
    ),
    "dnc": (0.0, 3.2, 9.5, 0.0, 1.7, 0.0, 5.3, 2.0, 0.1, 0.6, 0.0, 0.1, 0.4, 0.2, 0.1, 51.9, 21.7, 1.8, 4.3, 0.1),
    "sdnc": (0.0, 0.6, 0.7, 0.0, 0.3, 0.0, 0.2, 0.2, 0.0, 0.2, 0.0, 0.1, 0.1, 0.1, 0.0, 54.1, 0.3, 0.1, 1.2, 0.0),
    "dam": (0.0, 0.2, 1.3, 0.0, 0.4, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.8, 0.0, 52.8, 6.0, 0.3, 1.5, 0.1),
    "sam": (0.0, 0.2, 0.5, 0.0, 0.7, 0.0, 1.9, 0.4, 0.1, 0.2, 0.0, 0.1, 0.0, 4.3, 0.0, 53.1, 16.0, 1.1, 2.6, 0.0),
    "ntm": (16.4, 56.3, 49.0, 0.0, 2.5, 9.6, 12.0, 6.5, 7.0, 7.6, 2.5, 4.6, 2.0, 44.2, 25.4, 52.2, 39.7, 3.6, 5.8, 2.2),
}

# The paper's means over tasks; its errors per task are rounded, so their mean is not always the printed one.
PAPER_MEAN = {"lstm": 28.0, "dnc": 5.2, "sdnc": 2.9, "dam": 3.3, "sam": 4.1, "ntm": 17.5}


def babi(
    seeds: int = 3, budget: float | None = None, models: Sequence[str] = tuple(MODELS), steps: int = 100_000
) -> Experiment:
    """`seeds` runs of each model, each of at most `budget` seconds."""
    runs = {}
    for model in models:
        for seed in range(seeds):
            name = f"babi-{model}-{seed}"
            runs[name] = RunConfig(
                name=name,
                seed=seed,
                model=MODELS[model],
                task=TASK,
                optimizer=OPTIMIZERS[model],
                start=START if model in ("sam-linear", "sam-ann", "sdnc") else None,
                batch_size=32,
                steps=steps,
                seconds=budget,
                eval_every=2_000,
                eval_batches=24,
                eval_batch_size=64,
                checkpoint_every=2_000,
            )
    return Experiment("babi", "Question answering on the Babi tasks (supplementary tables)", runs, solved=0.05)


def evaluate_run(run: str | Path, split: str = "test", batch_size: int = 64) -> dict[str, Any]:
    """Errors per task of a run's newest checkpoint, kept beside it as `{split}.json`."""
    from sparsam.training.saved import load_model

    model, task, config = load_model(run)
    model.to(config.device)
    table = task.evaluate(model, split, batch_size, config.device)
    result = {"mean": table.mean, "failed": table.failed, "tasks": table.errors, "notes": table.notes}
    if Path(run).is_dir():
        (Path(run) / f"{split}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def report(out: str | Path) -> str:
    """Test every finished run under `out`; write and return the paper's two tables (results.md).

    The best run of a model is the one with the lowest validation error; mean and deviation are over its runs.
    """
    runs: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for folder in sorted(path.parent for path in Path(out).glob("*/result.json")):
        model = folder.name.removeprefix("babi-").rpartition("-")[0]
        runs.setdefault(model, []).append((evaluate_run(folder, "validation"), evaluate_run(folder, "test")))
    best = {model: min(pairs, key=lambda pair: pair[0]["mean"])[1] for model, pairs in runs.items()}
    lines = ["# Babi: best runs, chosen by validation error (%)", "", results_table({**best, **paper_results()}), ""]
    lines += ["# All runs", "", "| model | runs | mean error (%) | failed tasks |", "|---|---|---|---|"]
    for model, pairs in runs.items():
        tests = [test for _, test in pairs]
        errors, failed = [100 * test["mean"] for test in tests], [test["failed"] for test in tests]
        lines.append(f"| {model} | {len(tests)} | {_spread(errors)} | {_spread(failed)} |")
    text = "\n".join(lines) + "\n"
    (Path(out) / "results.md").write_text(text)
    return text


def results_table(results: dict[str, dict[str, Any]]) -> str:
    """Columns of `evaluate_run`, one per run, as the paper's table in Markdown (percent)."""
    lines = ["| task | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for task, stem in STEMS.items():
        cells = [_percent(result["tasks"].get(task, result["tasks"].get(str(task)))) for result in results.values()]
        lines.append(f"| {task}: {stem.replace('-', ' ')} | " + " | ".join(cells) + " |")
    lines.append("| mean error (%) | " + " | ".join(_percent(r["mean"]) for r in results.values()) + " |")
    lines.append("| failed (> 5%) | " + " | ".join(str(r["failed"]) for r in results.values()) + " |")
    notes = dict.fromkeys(note for result in results.values() for note in result["notes"])
    return "\n".join([*lines, "", *(f"* {note}" for note in notes)])


def paper_results() -> dict[str, dict[str, Any]]:
    """The paper's columns, to stand beside ours in `results_table`."""
    results = {}
    for model, percent in PAPER.items():
        tasks = {task: error / 100 for task, error in enumerate(percent, start=1)}
        failed = sum(error > 0.05 for error in tasks.values())
        results[f"{model} (paper)"] = {"mean": PAPER_MEAN[model] / 100, "failed": failed, "tasks": tasks, "notes": []}
    return results


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{deviation}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
