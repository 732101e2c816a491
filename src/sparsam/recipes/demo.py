"""The demonstration: SAM learns associative recall within two minutes, then answers ten times longer sequences."""

from __future__ import annotations

from sparsam.recipes.experiment import Experiment
from sparsam.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig

LEVEL = 6


def demo(seed: int = 0, seconds: float | None = None, steps: int = 40_000) -> Experiment:
    """One run; it ends as soon as the error is below 0.05 bits per sequence."""
    config = RunConfig(
        name="demo",
        seed=seed,
        model=ModelConfig("sam", memory_size=1024),
        task=TaskConfig("recall", {"bits": 8, "min_size": 1, "max_size": LEVEL}),
        optimizer=OptimizerConfig(learning_rate=1e-3),
        curriculum=CurriculumConfig(start=1, threshold=0.1, patience=50, max_level=LEVEL),
        steps=steps,
        seconds=seconds,
        stop_below=0.05,
        eval_every=200,
        eval_batches=16,
        log_every=50,
        threads=1,
        tensorboard=False,
    )
    return Experiment("demo", "Associative recall with SAM", {"demo": config}, test_sizes=(LEVEL, 10 * LEVEL))
