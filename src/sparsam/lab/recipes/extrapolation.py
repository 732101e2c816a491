"""SAM paper, supplementary figure: associative recall trained to level 10,000, tested to 200,000 and beyond.

With values of `bits` bits an answer by coin toss is wrong in bits/2 of them: chance is 8 bits here. A training sequence
asks for 128 of its pairs where figure 3 asks for 16: beside thousands of pairs they cost little time, and the gradient
is less noisy.

`recall-wide` has the paper's chance of 48 bits: keys and values of 96. A controller of 100 units has no room for both,
so here it has 400, with words of 64; Adam and first weights that use the memory, as for recall in turn (figure 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.recipes.figure3 import CURRICULA, MODELS, OFTEN, OPTIMIZERS, PLAIN, STARTS, TASKS
from sparsam.lab.training.config import RunConfig

CLAIM = "SAM, trained by a curriculum of up to 10,000 pairs, recalls far better than chance (48 bits) among 200,000"
PROTOCOL = (
    "A curriculum from level 8 to 10,000 with 2,000,000 words, 4 heads, K = 4, minibatches of 8; 256 cues of one "
    "sequence are asked for in the test. Values of 96 bits (chance 48): 400 hidden units, words of 64, Adam. Values of "
    "16 bits (chance 8): 100 hidden units, words of 32, RMSProp with momentum 0.9."
)
DIFFERENCES = (
    "400 hidden units instead of 100, for values of 96 bits.",
    "Key and value in one step, and 128 cues in a training sequence.",
)
TASK = replace(TASKS["recall"], training={"cues": 128})


@register
def extrapolation(
    seeds: int = 1,
    budget: float | None = 3600.0,
    tasks: Sequence[str] = ("recall",),
    models: Sequence[str] = ("sam-linear", "sam-ann"),
    max_level: int = 10_000,
    test_sizes: Sequence[int] = (10_000, 50_000, 200_000, 400_000),
    steps: int = 1_000_000,
) -> Experiment:
    """`budget` seconds of training for each model, then the tests."""

    def config(task: str, model: str) -> RunConfig:
        wide = task == "recall-wide"
        kind, like = copy(MODELS[model]), "recall-in-turn" if wide else "recall"
        if wide:
            kind.change({"hidden_size": 400, "word_size": 64})
        return RunConfig(
            model=kind.beginning(STARTS.get(like, PLAIN)),
            task=replace(TASK, settings=TASK.settings | {"bits": 96}) if wide else TASK,
            optimizer=OPTIMIZERS[like],
            curriculum=replace(CURRICULA["recall"], max_level=max_level),
            steps=steps,
            seconds=budget,
            **OFTEN,
        )

    runs = grid(config, tasks, models, seeds)
    return Experiment(
        "extrapolation",
        "Recall beyond the trained lengths (supplementary figure)",
        runs,
        test_sizes=tuple(test_sizes),
        claim=CLAIM,
        protocol=PROTOCOL,
        differences=DIFFERENCES,
    )
