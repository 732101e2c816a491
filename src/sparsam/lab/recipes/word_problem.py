"""Word problems of S5 and A5, alone and in one model with multi-query associative recall.

The product of a long word asks for a state that is carried from step to step; recall asks for a memory that holds many
things apart. `S5` and `A5` train on words of 1 to 32 elements, `both` trains one model on words of S5 and on MQAR
with 512 tokens, one minibatch of nine. Tests go on to words of 256 elements, 8 times the longest in training.

A block of `SparseMemory` alone cannot carry a product on: what it writes depends on the last few inputs and on nothing
that it has read, so of a long word a fixed number of blocks sees a fixed number of factors at a time. SAM's controller
can, and so can an LSTM block beside a memory block.

One step of an LSTM can multiply by a permutation of five things with 125 units, one for each 'i goes where j went, and
j is at v'. The models with an LSTM have 256, and all models 800,000 parameters in their blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sparsam.lab.recipes import token_report
from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.mqar import OPTIMIZER, START, blocks
from sparsam.lab.recipes.token_lengths import usable_device
from sparsam.lab.recipes.token_tests import error_rate
from sparsam.lab.tasks.tokens.mixture import TokenMixture
from sparsam.lab.training.config import CurriculumConfig, RunConfig, TaskConfig
from sparsam.lab.training.folder import RunFolder

LONGEST = 32
_WORDS = {"min_length": LONGEST, "max_length": LONGEST}
_SLICES = ((64, 4), (64, 8), (64, 16), (128, 32))
TASKS = {
    "S5": TaskConfig("word_problem", {"group": "S5", **_WORDS}),
    "A5": TaskConfig("word_problem", {"group": "A5", **_WORDS}),
    "both": TaskConfig(
        "token_mixture",
        {
            "parts": [
                {"name": "word_problem", "settings": {"group": "S5", **_WORDS}, "weight": 8.0},
                {"name": "mqar", "settings": {"vocabulary": 512, "slices": [list(part) for part in _SLICES]}},
            ]
        },
    ),
}
# A model that has the product of words up to some length learns the next one soon: levels lead it there. In `both` a
# level is the most pairs as well.
CURRICULUM = CurriculumConfig(start=2, threshold=0.2, patience=50, max_level=LONGEST)
PARAMETERS, UNITS = 800_000, 256
_blocks = partial(blocks, parameters=PARAMETERS)
MODELS = {
    "memory-lstm": _blocks("memory", "lstm", lstm={"hidden_size": UNITS}),
    "lstm-memory": _blocks("lstm", "memory", lstm={"hidden_size": UNITS}),
    "sam": _blocks("sam", sam_start={**START, "words": 8.0}, sam={"hidden_size": UNITS, "num_heads": 2}),
    "lstm": _blocks("lstm", lstm={"hidden_size": UNITS}),
    "memory": _blocks("memory", "memory"),
    "attention": _blocks("attention", "attention"),
    "delta": _blocks("delta", "delta", delta={"negative": True}),
}
LENGTHS = (32, 64, 128, 256)
SEQUENCES = 128  # of each length


@register
def word_problem(
    seeds: int = 3,
    budget: float | None = None,
    tasks: Sequence[str] = tuple(TASKS),
    models: Sequence[str] = tuple(MODELS),
    steps: int = 30_000,
) -> Experiment:
    """`seeds` runs of each model on each task, each of at most `budget` seconds."""

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODELS[model],
            task=TASKS[task],
            optimizer=replace(OPTIMIZER, hold=10_000),
            curriculum=CURRICULUM,
            batch_size=256,
            steps=steps,
            seconds=budget,
            stop_below=1e-4,
            eval_every=500,
            eval_batches=10,
            eval_batch_size=32,
            checkpoint_every=500,
            checkpoint_seconds=60.0,
        )

    runs = grid(config, tasks, models, seeds)
    return Experiment("word-problem", "Word problems of S5 and A5", runs, solved=0.005)


def length_errors(run: str | Path) -> dict[str, Any]:
    """A run's errors on words of each length (over all prefixes) and, for a mixture, on slices of MQAR."""
    from sparsam.lab.training.saved import load_model

    model, task, config = load_model(run)
    device = usable_device(config.device)
    model.to(device)
    mixed = isinstance(task, TokenMixture)
    words: Any = task.parts[0] if mixed else task

    def shifted(part: int, batch: Any) -> Any:
        return task.shifted(part, batch) if mixed else batch

    def test(draw: Any) -> dict[str, Any]:
        return error_rate(model, task, draw, 1, config.seed + 1, device)

    found = {}
    for length in LENGTHS:
        found[f"{length} elements"] = test(
            lambda generator, size=length: shifted(0, words.sample_size(SEQUENCES, generator, size))
        )
    if mixed:
        for length, pairs in _SLICES:
            found[f"{pairs} pairs in {length}"] = test(
                lambda generator, size=(length, pairs): shifted(
                    1, task.parts[1].sample_slice(SEQUENCES, generator, *size)
                )
            )
    return found


def report(out: str | Path) -> str:
    """Test every finished run under `out` (once); a table, a picture for each task, results.md."""
    out = Path(out)
    runs: dict[str, dict[str, Any]] = {}
    for folder in (RunFolder(path.parent) for path in sorted(out.glob("*/result.json"))):
        runs[folder.path.name] = token_report.once(folder.path / "lengths.json", partial(length_errors, folder.path))
    text = "\n".join(["# Word problems: accuracy (%) over all prefixes", "", token_report.accuracy_table(runs), ""])
    (out / "results.md").write_text(text)
    for task in TASKS:
        some = {
            name: {test: found for test, found in tests.items() if test.endswith("elements")}
            for name, tests in runs.items()
            if name.startswith(task)
        }
        if some:
            title = f"Word problem ({task}): accuracy over length"
            token_report.draw_accuracy(some, {}, out / f"{task}-accuracy.png", title, "elements in a word")
    return text
