"""SAM paper, figure 3: an exponential curriculum, 2,000,000 words for SAM (exact and ANN), 64 for NTM and DAM.

Full backpropagation through time at every level; equal wall time for every run, one thread each. The settings of a task
are the same for all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparsam.experiments.experiment import Experiment
from sparsam.experiments.figure2 import OPTIMIZER
from sparsam.training.config import CurriculumConfig, ModelConfig, OptimizerConfig, RunConfig, TaskConfig

WORDS = 2_000_000
# Items of 16 bits: at level 100,000 one of 8 bits would hardly identify a pair. A training episode asks for 16 of its
# pairs, an evaluation for one, as the paper does.
TASKS = {
    "recall": TaskConfig("recall", {"bits": 16, "paired": True}, {"cues": 16}),
    "copy": TaskConfig("copy"),
    "sort": TaskConfig("sort"),
}
# Short sequences are answered without the memory (out of the controller's state, or by the mean of the values), and a
# curriculum that starts there climbs slowly: each task starts where looking it up pays.
CURRICULA = {
    "recall": CurriculumConfig(start=8, threshold=0.05, patience=50),
    "copy": CurriculumConfig(start=32, threshold=0.1, patience=50),
    "sort": CurriculumConfig(start=16, threshold=0.1, patience=50),
}
# Momentum makes recall climb in half the minibatches, and copy forget what it could. At the full rate, momentum on
# sequences of thousands of steps has ended in gradients that are not finite: the rate falls there. Copy and sort have
# gradients of norm 0.1 and now and then one of norm 10 or 100, which undoes what was learnt unless it is clipped to the
# usual norm.
RECALL = OptimizerConfig(learning_rate=1e-3, full_rate_level=1024, patience=3)
CONSTANT = replace(OPTIMIZER, final_rate=None, hold=0, clip=0.1, patience=3)
OPTIMIZERS = {
    "recall": RECALL,
    "copy": replace(CONSTANT, full_rate_level=32),
    "sort": replace(CONSTANT, full_rate_level=16),
}
# 32 checks, the forest's default, miss so many words from level 2,048 on that the loss stays above the threshold.
MODELS = {
    "sam-linear": ModelConfig("sam", memory_size=WORDS, index="linear"),
    "sam-ann": ModelConfig("sam", memory_size=WORDS, index="kdtree", index_settings={"checks": 128}),
    "ntm": ModelConfig("ntm", memory_size=64),
    "dam": ModelConfig("dam", memory_size=64),
}


def figure3(
    seeds: int = 1,
    budget: float | None = 1800.0,
    tasks: Sequence[str] = tuple(TASKS),
    models: Sequence[str] = tuple(MODELS),
    max_level: int | None = None,
    steps: int = 1_000_000,
) -> Experiment:
    """`budget` seconds for each run."""
    runs = {}
    for task in tasks:
        for model in models:
            for seed in range(seeds):
                name = f"{task}-{model}-{seed}"
                runs[name] = RunConfig(
                    name=name,
                    seed=seed,
                    model=MODELS[model],
                    task=TASKS[task],
                    optimizer=OPTIMIZERS[task],
                    curriculum=replace(CURRICULA[task], max_level=max_level),
                    steps=steps,
                    seconds=budget,
                    eval_every=200,
                    eval_batches=2,
                    eval_batch_size=8,
                    checkpoint_every=200,
                    checkpoint_seconds=120.0,
                    log_every=20,
                    threads=1,
                )
    return Experiment("figure3", "Curriculum (figure 3)", runs)
