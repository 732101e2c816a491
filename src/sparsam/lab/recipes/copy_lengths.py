"""Copying further than trained: an SDNC that has nothing but its links to follow.

A controller that recurs learns where in the sequence it is, up to the longest it was trained on, and looks the items up
by that. Here it cannot: the controller is feed-forward, so that the memory is the only recurrent state, and a word has
little room for more than an item. What is left is the order in which words were written, which the links keep for any
length.
The gates begin open (each item to a new word, all of it), since what is lost at one link is lost at all that follow.
Queries and write words begin three times as large, and the optimiser is Adam: with RMSProp and plain words one seed of
three learned it (docs/notebook/algorithmic_tasks.md).
"""

from __future__ import annotations

from sparsam.lab.recipes.experiment import Experiment, grid, register
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.start import Start

TRAINED = 40  # items at most; with 20 some sequences get lost on their way to 100
TASK = TaskConfig("copy", {"bits": 6, "min_size": 1, "max_size": TRAINED})
MODEL = ModelConfig(
    "sdnc",
    hidden_size=64,
    memory_size=1024,
    word_size=12,
    num_heads=1,
    controller="feedforward",
    start=Start(write=9.0, reuse=-9.0, words=3.0),
)
CLAIM = "Copy of 100 items after training on at most 40"
PROTOCOL = (
    "An SDNC with a feed-forward controller, trained on 1 to 40 items of 6 bits for 10,000 minibatches with Adam, rate "
    "1e-3 falling to 1e-5; 64 test sequences of each size."
)
DIFFERENCES = ("The paper has no such experiment.",)
TEST_SIZES = (20, 40, 100, 200, 400)


@register
def copy_lengths(seeds: int = 3, budget: float | None = None, steps: int = 10_000) -> Experiment:
    """`seeds` runs of `steps` minibatches, each of at most `budget` seconds."""

    def config(task: str, model: str) -> RunConfig:
        return RunConfig(
            model=MODEL,
            task=TASK,
            optimizer=OptimizerConfig("adam", learning_rate=1e-3, epsilon=1e-8, final_rate=1e-5, hold=steps * 2 // 5),
            steps=steps,
            seconds=budget,
            eval_every=1_000,
            checkpoint_every=1_000,
            threads=1,
        )

    runs = grid(config, ["copy"], ["sdnc"], seeds)
    title = "Copy beyond the trained length"
    words = (CLAIM, PROTOCOL, DIFFERENCES)
    return Experiment("copy-lengths", title, runs, 0.1, TEST_SIZES, {}, None, *words)
