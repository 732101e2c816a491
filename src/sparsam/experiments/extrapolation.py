"""SAM paper, supplementary figure: associative recall trained to level 10,000, tested to 200,000 and beyond.

With values of `bits` bits an answer by coin toss is wrong in bits/2 of them: chance is 8 bits here (the paper's
setting has 48). A training episode asks for 128 of its pairs where figure 3 asks for 16: beside thousands of pairs they
cost little time, and the gradient is less noisy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparsam.experiments.experiment import Experiment, grid, register
from sparsam.experiments.figure3 import CURRICULA, MODELS, OPTIMIZERS, TASKS
from sparsam.training.config import RunConfig


@register
def extrapolation(
    seeds: int = 1,
    budget: float | None = 3600.0,
    models: Sequence[str] = ("sam-linear", "sam-ann"),
    max_level: int = 10_000,
    test_sizes: Sequence[int] = (10_000, 50_000, 200_000, 400_000),
    steps: int = 1_000_000,
) -> Experiment:
    """`budget` seconds of training for each model, then the tests."""

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODELS[model],
            task=replace(TASKS["recall"], training={"cues": 128}),
            optimizer=OPTIMIZERS["recall"],
            curriculum=replace(CURRICULA["recall"], max_level=max_level),
            steps=steps,
            seconds=budget,
            eval_every=200,
            eval_batches=2,
            eval_batch_size=8,
            checkpoint_every=200,
            checkpoint_seconds=120.0,
            log_every=20,
        )

    runs = grid(config, ["recall"], models, seeds)
    return Experiment(
        "extrapolation", "Recall beyond the trained lengths (supplementary figure)", runs, test_sizes=tuple(test_sizes)
    )
