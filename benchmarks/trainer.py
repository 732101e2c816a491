"""`sparsam bench trainer`: what the training loop adds to the engine's own forward and backward pass.

The loop is the real one: minibatches are drawn, loss and gradient taken, clipped, applied, recorded and logged, as in
`sparsam.lab.training.loop`. Evaluations and checkpoints, which happen as rarely as one likes, are left out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.timing import take_turns
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.loop import Run
from sparsam.lab.training.progress import Silent

ITEMS = 20  # of the copy task: 41 steps
TURN = 10  # minibatches per turn
NEVER = 10**9


@benchmark("What the trainer adds to the engine's own time.")
def run(out: Path, quick: bool = False) -> Report:
    """Check, time in turns, print, and write trainer.json."""
    report = Report("trainer")
    print(f"native equals reference to {require_equal('sam'):.0e}; {torch.get_num_threads()} threads")
    config = RunConfig(
        model=ModelConfig(name="sam", memory_size=65_536),
        task=TaskConfig("copy", {"min_size": ITEMS, "max_size": ITEMS}),
        optimizer=OptimizerConfig("rmsprop"),
        batch_size=8,
        steps=NEVER,
        eval_every=NEVER,
        checkpoint_every=NEVER,
        checkpoint_seconds=float(NEVER),
    )
    with tempfile.TemporaryDirectory() as scratch:
        spent = measure(config, Path(scratch) / "run", 4.0 if quick else 20.0)
    report.raw["us per minibatch"] = {name: seconds * 1e6 for name, seconds in spent.items()}
    added = (spent["training loop"] / spent["engine"] - 1) * 100
    report.add(Line(f"added by the trainer, T = {2 * ITEMS + 1}, B = 8, SAM", added, "%", 10))
    print(report.table())
    print(report.write(out))
    return report


def measure(config: RunConfig, folder: Path, seconds: float) -> dict[str, float]:
    """Seconds per minibatch of the training loop, and of forward and backward pass alone on the same input."""
    learner, run_folder = Learner(config), RunFolder(folder)
    run_folder.create(config)
    book = Run(config, run_folder, learner, Silent())
    book.open_log()
    model = learner.model
    x = learner.task.sample(config.batch_size, learner.seeds.at(0)).inputs
    weights = torch.ones(*x.shape[:2], learner.task.output_size)

    def loop() -> None:
        for _ in range(TURN):
            loss = learner.gradient(book.step, book.level)
            book.record(loss, learner.apply(book.step, loss))

    def engine() -> None:
        for _ in range(TURN):
            y, _ = model(x)
            y.backward(weights)

    try:
        times = take_turns({"training loop": loop, "engine": engine}, seconds)
    finally:
        book.close()
    return {name: timing.median / TURN for name, timing in times.items()}
