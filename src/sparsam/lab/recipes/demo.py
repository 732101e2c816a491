"""The demonstration: SAM learns associative recall within two minutes, then answers ten times longer sequences."""

from __future__ import annotations

from sparsam.lab.recipes.experiment import Experiment, register
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig

PAIRS = 6


@register
def demo(seed: int = 0, seconds: float | None = None, steps: int = 40_000) -> Experiment:
    """One run of 1 to 6 pairs; it ends as soon as the error is below 0.01 bits per sequence.

    A training sequence asks for all of its pairs one after the other; evaluation asks for one.
    """
    config = RunConfig(
        name="demo",
        seed=seed,
        model=ModelConfig("sam", memory_size=1024, start="plain"),
        task=TaskConfig("recall", {"paired": True, "min_size": 1, "max_size": PAIRS}, {"cues": PAIRS}),
        optimizer=OptimizerConfig("rmsprop", learning_rate=1e-3),
        steps=steps,
        seconds=seconds,
        stop_below=0.01,
        eval_every=200,
        eval_batches=16,
        log_every=50,
        threads=1,
        tensorboard=False,
    )
    return Experiment("demo", "Associative recall with SAM", {"demo": config}, test_sizes=(PAIRS, 10 * PAIRS))
