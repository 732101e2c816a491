"""SAM paper, figure on Omniglot: curriculum on the number of characters, then episodes of up to 500 new ones.

The level doubles when the mean loss falls below a threshold. With 500 labels a perfect learner has a loss of 0.62
nats a step (first presentations can only be guessed, see `Omniglot.floor`) and one that knows nothing 6.2.

What makes SAM start, after about 100 minibatches: normalised drawings shown as stroke directions, as many labels as
the level has characters (`pool`) and no episodes much smaller than the level (`min_share`). Short trials with
pixels, one seed each, that had not started: drawings only centred by their mean image (5 labels, rate 1e-3, 1,000
minibatches; with moments 400), four labels for each character (700), episodes from one character on (level 16, 350).

Up to level 32 the labels are the first ones, from 64 on all 500: a model that names 32 characters has learned the other
labels 200 minibatches later. On a GPU add `--device cuda --set task.training.device=cuda`, which draws the episodes
there as well, and take larger minibatches (`--batch-size 64`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig

LABELS = 500
THRESHOLD = 1.3  # nats a step: about twice the floor of 0.62
SIZES = (10, 25, 50, 100, 200, 350, 500)
TASK = TaskConfig(
    "omniglot",
    {
        "labels": LABELS,
        "scale": 8.0,
        "normalise": True,
        "image_size": 28,
        "strokes": True,
        "evaluation_size": 50,
        "evaluation_episodes": 16,
    },
    training={"pool": 1.0, "pool_below": 64, "min_share": 0.5, "variety": 0.1},
)
_SIZES: dict[str, Any] = {"hidden_size": 224, "word_size": 64, "num_heads": 4}
MODELS = {
    "lstm": ModelConfig("lstm", hidden_size=400),
    "ntm": ModelConfig("ntm", memory_size=128, **_SIZES),
    "dam": ModelConfig("dam", memory_size=128, **_SIZES),
    "sam-linear": ModelConfig("sam", memory_size=16_384, **_SIZES),
    "sam-ann": ModelConfig("sam", memory_size=16_384, index="kdtree", **_SIZES),
    "dnc": ModelConfig("dnc", memory_size=128, **_SIZES),
    "sdnc": ModelConfig("sdnc", memory_size=16_384, **_SIZES),
}


@register
def omniglot(
    seeds: int = 1,
    budget: float | None = 3600.0,
    models: Sequence[str] = tuple(MODELS),
    max_level: int = 128,
    steps: int = 1_000_000,
) -> Experiment:
    """`budget` seconds of training for each run, the same for all models."""

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODELS[model].beginning("plain"),
            task=TASK,
            optimizer=OptimizerConfig("adam", learning_rate=3e-3, warmup=50, clip=1.0),
            curriculum=CurriculumConfig(start=8, threshold=THRESHOLD, patience=50, max_level=max_level),
            batch_size=16,
            steps=steps,
            seconds=budget,
            eval_every=1_000,
            eval_batches=4,
            eval_batch_size=4,
            checkpoint_every=1_000,
            log_every=50,
        )

    runs = grid(config, ["omniglot"], models, seeds)
    return Experiment("omniglot", "One-shot recognition on Omniglot", runs)


def evaluate_run(
    run: str | Path, split: str = "test", sizes: Sequence[int] = SIZES, episodes: int = 8, batch_size: int = 4
) -> dict[str, Any]:
    """Errors by number of characters and presentation of a run's newest checkpoint, kept as `{split}.json`."""
    from sparsam.lab.training.trained import load_model

    model, task, config = load_model(run)
    model.to(config.device)
    result = {}
    for size in sizes:
        table = task.evaluate(model, split, batch_size, size, episodes, config.device)
        result[str(size)] = {"error": table.summary()["error_rate"], "by_presentation": table.errors}
    if Path(run).is_dir():
        (Path(run) / f"{split}.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def report(out: str | Path, sizes: Sequence[int] = SIZES, episodes: int = 8) -> str:
    """Test the best finished run of each model under `out` (lowest validation error at the largest size).

    Writes the table (results.md, returned) and error over the number of characters (characters.png).
    """
    runs: dict[str, list[Path]] = {}
    for folder in sorted(path.parent for path in Path(out).glob("*/result.json")):
        runs.setdefault(folder.name.removeprefix("omniglot-").rpartition("-")[0], []).append(folder)
    best = {}
    for model, folders in runs.items():
        chosen = folders[0]
        if len(folders) > 1:
            most = (max(sizes),)
            chosen = min(folders, key=lambda f: evaluate_run(f, "validation", most, episodes)[str(most[0])]["error"])
        best[model] = evaluate_run(chosen, "test", sizes, episodes)
    text = f"# Omniglot: test error by number of characters\n\n{results_table(best)}\n"
    (Path(out) / "results.md").write_text(text)
    _plot(best, Path(out) / "characters.png")
    return text


def _plot(results: dict[str, dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for model, result in results.items():
        axes.plot([int(size) for size in result], [entry["error"] for entry in result.values()], "o-", label=model)
    axes.set(xlabel="characters in the episode", ylabel="error", ylim=(0, 1.02), title="Omniglot, test characters")
    axes.legend()
    figure.savefig(path, dpi=120)


def results_table(results: dict[str, dict[str, Any]]) -> str:
    """`evaluate_run` of several runs in Markdown: error over the number of characters."""
    sizes = list(dict.fromkeys(size for result in results.values() for size in result))
    lines = ["| characters | chance | " + " | ".join(results) + " |", "|---|---|" + "---|" * len(results)]
    for size in sizes:
        cells = [_cell(result.get(size)) for result in results.values()]
        lines.append(f"| {size} | {1 - 1 / int(size):.3f} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Error over all presentations; in brackets that of the 2nd and of the 10th."])


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "-"
    by = entry["by_presentation"]
    return f"{entry['error']:.3f} ({by[1]:.3f}, {by[-1]:.3f})"
