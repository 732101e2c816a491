"""`sparsam bench data`: bAbI and Omniglot through the trainer, and how much of the time is not the model's."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from benchmarks import benchmark
from benchmarks.report import Line, Report
from sparsam.lab.recipes.babi import babi
from sparsam.lab.recipes.omniglot_pixels import omniglot_pixels
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.loop import Run
from sparsam.lab.training.progress import Silent

CHARACTERS = 50  # in an Omniglot episode
OUTSIDE = 0.15  # of the time, at most, may be spent outside the model's forward and backward pass

Result = TypeVar("Result")


class ModelClock:
    """Seconds spent in a model's forward pass and, from the gradient of its outputs on, in its backward pass.

    What is read is the process's own time, so other programs on the machine do not count.
    """

    def __init__(self, model: nn.Module) -> None:
        self.seconds = 0.0
        self._mark = 0.0
        model.register_forward_pre_hook(self._enter)
        model.register_forward_hook(self._leave)
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self._count)

    def _enter(self, *_: Any) -> None:
        self._mark = time.process_time()

    def _leave(self, _model: nn.Module, _inputs: Any, outputs: Any) -> None:
        self._count()
        if outputs[0].requires_grad:
            outputs[0].register_hook(self._enter)

    def _count(self, *_: Tensor) -> None:
        """Called for every parameter whose gradient is there; the last of them ends the pass."""
        now = time.process_time()
        self.seconds += now - self._mark
        self._mark = now


def measure(config: RunConfig, level: int | None, seconds: float) -> dict[str, float]:
    """Train for about `seconds` of processor time; time steps per second and the shares of the time.

    Everything that a run does for each minibatch is in it: drawing, model, loss, errors, optimiser, log, display.
    Evaluations and checkpoints, which happen as rarely as one likes, are not.
    """
    learner = Learner(config)
    drawn = [0.0]
    learner.task.sample = _timed(learner.task.sample, drawn)
    clock = ModelClock(learner.model)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(config, RunFolder(folder), learner, Silent())
        run.open_log()
        try:
            _steps(run, learner, level, seconds / 10)  # threads, caches and allocators get going
            before, drawn_before, words_before = clock.seconds, drawn[0], learner.time_steps
            spent = _steps(run, learner, level, seconds)
        finally:
            run.close()
    return {
        "time steps per second": (learner.time_steps - words_before) / spent,
        "outside the model": 1 - (clock.seconds - before) / spent,
        "drawing minibatches": (drawn[0] - drawn_before) / spent,
    }


def _steps(run: Run, learner: Learner, level: int | None, seconds: float) -> float:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        run.record(loss := learner.gradient(run.step, level), learner.apply(run.step, loss))
    return time.process_time() - begin


def _timed(call: Callable[..., Result], spent: list[float]) -> Callable[..., Result]:
    def timed(*args: Any, **kwargs: Any) -> Result:
        begin = time.process_time()
        result = call(*args, **kwargs)
        spent[0] += time.process_time() - begin
        return result

    return timed


@benchmark("Words and images per second in the trainer, and the time outside the model.", threads=False)
def run(out: Path, quick: bool = False) -> Report:
    """Measure, print, and write data.json. One thread: the figures are per core."""
    report = Report("data")
    torch.set_num_threads(1)
    never = ["eval_every=1000000000", "checkpoint_every=1000000000", "checkpoint_seconds=1000000000"]
    cases = {
        "bAbI, SDNC": (babi(seeds=1, models=["sdnc"]).runs["babi-sdnc-0"], None, "thousand words/s"),
        f"Omniglot, SAM, up to {CHARACTERS} characters": (
            omniglot_pixels(seeds=1, models=["sam"]).runs["omniglot-pixels-sam-0"],
            CHARACTERS,
            "thousand images/s",
        ),
    }
    for name, (config, level, unit) in cases.items():
        found = measure(config.with_settings(never), level, 5.0 if quick else 30.0)
        report.raw[name] = found
        report.add(Line(f"{name}: trained on, one thread", found["time steps per second"] / 1e3, unit))
        outside = 100 * found["outside the model"]
        report.add(Line(f"{name}: time outside the model", outside, "%", bound=100 * OUTSIDE))
        report.add(Line(f"{name}: time drawing minibatches", 100 * found["drawing minibatches"], "%"))
    print(report.table())
    print(report.write(out))
    return report
