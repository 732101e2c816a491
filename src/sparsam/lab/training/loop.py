"""The training loop, in one process or (under torchrun) in several that take every step together.

`train(config, folder)` starts a run, `train(config, folder, resume=True)` goes on with one. What
happens around a minibatch (curriculum, log, evaluation, checkpoint, display, reasons to stop) is in
`Run`, which the asynchronous workers use as well.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.tasks.input_layer import described
from sparsam.lab.training import checkpoint, progress
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.curriculum import Curriculum
from sparsam.lab.training.distributed import Processes
from sparsam.lab.training.evaluate import evaluate
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.interrupt import Interrupt
from sparsam.lab.training.learner import Learner, require_device
from sparsam.lab.training.log import RunLog
from sparsam.lab.training.loggers import Logger, TensorBoard, build_loggers
from sparsam.lab.training.memory_use import SEQUENCES, memory_use
from sparsam.lab.training.open_run import OpenRun
from sparsam.lab.training.readback import Numbers, Readback
from sparsam.lab.training.retreat import Retreat, follow
from sparsam.lab.training.seeds import MinibatchSeeds


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `reason` is 'steps', 'seconds', 'solved' or 'interrupted'."""

    reason: str
    step: int
    seconds: float
    level: int | None
    evaluation: dict[str, float]
    signal: int | None = None


ADVICE_FROM = 0.1  # of a run: before, no memory is used well


class Run:
    """One run's book-keeping. `record` is called once per minibatch and says why to stop, or None."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        learner: Learner,
        display: progress.Progress,
        writes: bool = True,
        share: Callable[[Any], Any] = lambda value: value,
        processes: int = 1,
    ) -> None:
        self.config, self.folder, self.learner, self.display = config, folder, learner, display
        self.curriculum = Curriculum(config.curriculum) if config.curriculum else None
        retreats = self.curriculum and self.curriculum.config.retreat
        self.retreat = Retreat(self.curriculum, learner) if self.curriculum and retreats else None
        self.task = config.task.build()  # as it is evaluated
        self.step = 0
        self.evaluation: dict[str, float] = {}
        self._writes = writes
        self._share = share  # hands rank 0's value to every process
        self._processes = processes  # that take every step together, each with a minibatch of its own
        self._step_sequences = config.batch_size * processes
        self._log: RunLog | None = None
        self._loss_sum, self._loss_count, self._last_loss, self._last_norm = 0.0, 0, 0.0, 0.0
        self._clock = progress.Clock(display.interval)
        self._seconds_before = 0.0
        self._started = time.perf_counter()
        self._rate_mark = self._display_mark = (self._started, 0, 0)
        self._first_step = 0
        self._last_save = self._started
        self._saved_step: int | None = None  # of the last checkpoint that was written or gone on from
        self._readback = Readback()
        self._advised = False  # whether the display has said how the memory is used

    @property
    def level(self) -> int | None:
        return self.curriculum.level if self.curriculum else None

    @property
    def seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started

    @property
    def share(self) -> float:
        """How much of the run is over, by its minibatches or its time, whichever ends it first."""
        by_time = 0.0 if self.config.seconds is None else self.seconds / self.config.seconds
        return min(max(self.step / self.config.steps, by_time), 1.0)

    @property
    def late(self) -> bool:
        """Whether the time that the run was given is over, by this process's clock."""
        return self.config.seconds is not None and self.seconds >= self.config.seconds

    def open_log(self) -> None:
        """Start the clock and the log; events after the step that is resumed from are forgotten."""
        self._started = self._last_save = time.perf_counter()
        self._rate_mark = self._display_mark = (self._started, self.step, self.learner.time_steps)
        self._first_step = self.step
        if self._writes:
            loggers: list[Logger] = [TensorBoard()] if self.config.tensorboard else []
            loggers += build_loggers(self.config.loggers)
            self._log = RunLog(self.folder.log_file, loggers, self.step, self.config.to_dict())

    def record(self, loss: float | Tensor, norm: float | Tensor, late: bool | None = None) -> str | None:
        """Take in one minibatch. `late` is what the processes agree on; alone, this one's clock decides."""
        config = self.config
        self.step += 1
        step = self.step
        if self.curriculum:
            self.curriculum.rise(step)
        if isinstance(loss, Tensor) and isinstance(norm, Tensor):
            self._readback.send(step, loss, norm)
            self._catch_up(all_of_them=False)
        else:
            self._account(Numbers(step, float(loss), float(norm)))
        if step % config.log_every == 0:
            self._catch_up()
            self._log_window()
        if self._clock.due():
            self.display.show(self._numbers())
        reason = None
        if step % config.eval_every == 0:
            reason = self._evaluate()
        if reason is None and step >= config.steps:
            reason = "steps"
        if reason is None and (self.late if late is None else late):
            reason = "seconds"
        if step % config.checkpoint_every == 0 or time.perf_counter() - self._last_save > config.checkpoint_seconds:
            self.save()
        return reason

    def _catch_up(self, all_of_them: bool = True) -> None:
        """Take in the numbers that have come back from the device."""
        for numbers in self._readback.arrived(all_of_them):
            self.learner.judge(numbers.step - 1, numbers.loss, numbers.norm)
            self._account(numbers)

    def _account(self, numbers: Numbers) -> None:
        """What the loss of a minibatch changes: the log's mean and the curriculum."""
        step, loss, norm = numbers.step, numbers.loss, numbers.norm
        finite = math.isfinite(loss)
        if finite:
            self._loss_sum += loss
            self._loss_count += 1
        if not (finite and math.isfinite(norm)):
            self.write("passed_over", loss=str(loss), gradient_norm=str(norm), level=self.level)
            self.display.note(f"minibatch {step:,}: passed over (loss {loss:.4g}, gradient norm {norm:.4g})")
        self._last_loss, self._last_norm = loss, norm
        if finite and self.curriculum and not self.curriculum.timed:
            self._tell(follow(self.curriculum, self.retreat, loss), step)

    def _tell(self, change: str | None, step: int) -> None:
        """Log and show that the level has risen, or that training has gone back to the best weights of this one."""
        if change is None:
            return
        more = {"lowest": self.retreat.lowest, "slower": self.learner.slower} if self.retreat else {}
        sequences = step * self._step_sequences
        self.write(change, level=self.level, seconds=round(self.seconds, 3), sequences=sequences, **more)
        back = "back to the best weights of " if change == "retreat" else ""
        self.display.note(f"minibatch {step:,}: {back}level {self.level:,}")

    def write(self, kind: str, **values: Any) -> None:
        if self._log is not None:
            self._log.write(kind, self.step, **values)

    def _log_window(self) -> None:
        now = time.perf_counter()
        then, step, time_steps = self._rate_mark
        elapsed = max(now - then, 1e-9)
        self.write(
            "train",
            loss=self._loss_sum / max(self._loss_count, 1),
            **self.learner.errors,
            level=self.level,
            gradient_norm=self._last_norm,
            sequences=self.step * self._step_sequences,
            seconds=round(self.seconds, 3),
            sequences_per_second=round((self.step - step) * self._step_sequences / elapsed, 2),
            time_steps_per_second=round((self.learner.time_steps - time_steps) * self._processes / elapsed, 1),
        )
        self._loss_sum, self._loss_count = 0.0, 0
        self._rate_mark = (now, self.step, self.learner.time_steps)

    def _evaluate(self) -> str | None:
        config = self.config
        if self._writes:
            self.evaluation = evaluate(
                self.learner.model,
                self.task,
                MinibatchSeeds(config.seed),
                config.eval_batches,
                config.eval_batch_size,
                self.level,
                self.curriculum.evaluation_size(self.task) if self.curriculum else None,
                device=config.device,
            )
            self.write(
                "eval",
                **self.evaluation,
                level=self.level,
                seconds=round(self.seconds, 3),
                sequences=self.step * self._step_sequences,
            )
            few = self.task.sample(SEQUENCES, MinibatchSeeds(config.seed).at(0, MinibatchSeeds.EVALUATE), self.level)
            if use := memory_use(self.learner.model, few.to(config.device)):
                self.write("memory", **use.numbers())
                if use.advice and not self._advised and self.share >= ADVICE_FROM:
                    self._advised = True
                    self.display.note(f"minibatch {self.step:,}: the memory: {'; '.join(use.advice)}")
        self.evaluation = self._share(self.evaluation)
        headline = next(iter(self.evaluation.values()))
        at_top = self.curriculum is None or self.level == self.curriculum.config.max_level
        solved = config.stop_below is not None and at_top and headline < config.stop_below
        return "solved" if solved else None

    def _numbers(self) -> dict[str, Any]:
        """What the display shows; the rates are those since it last did."""
        config, step, now = self.config, self.step, time.perf_counter()
        then, mark, time_steps = self._display_mark
        elapsed = max(now - then, 1e-9)
        self._display_mark = (now, step, self.learner.time_steps)
        fraction = step / config.steps
        left = (config.steps - step) * (now - self._started) / max(step - self._first_step, 1)
        if config.seconds is not None:
            fraction = max(fraction, self.seconds / config.seconds)
            left = min(left, config.seconds - self.seconds)
        error_name = next(iter(self.learner.errors), None)
        error = self.learner.errors.get(error_name) if error_name else None
        if error_name in self.evaluation:
            error = self.evaluation[error_name]
        return {
            "step": step,
            "loss": self._loss_sum / self._loss_count if self._loss_count else self._last_loss,
            "error_name": error_name,
            "error": error,
            "level": self.level,
            "fraction": fraction,
            "sequences_per_second": (step - mark) * self._step_sequences / elapsed,
            "time_steps_per_second": (self.learner.time_steps - time_steps) * self._processes / elapsed,
            "seconds_left": left,
        }

    def save(self, last: bool = False) -> None:
        """Write a checkpoint; a disk that refuses it costs a warning, the previous one stays.

        The `last` one of a run must be written: where it cannot be, NotSaved says what is on disk.
        """
        self._last_save = time.perf_counter()
        self._catch_up()
        if not self._writes or self._saved_step == self.step:
            return
        trainer = {
            "learner": self.learner.state_dict(),
            "curriculum": self.curriculum.state_dict() if self.curriculum else None,
            "retreat": self.retreat.state_dict() if self.retreat else None,
            "window": [self._loss_sum, self._loss_count],
            "seconds": self.seconds,
            "time_steps": self.learner.time_steps,
            "evaluation": self.evaluation,
            "processes": self._processes,
        }
        model, config = self.learner.model, self.config.to_json()
        try:
            checkpoint.save(self.folder.checkpoints, self.step, model.state_dict(), trainer, config, described(model))
            self._saved_step = self.step
        except OSError as error:
            if last:
                raise checkpoint.NotSaved(self._not_saved(error)) from error
            warnings.warn(
                f"checkpoint at minibatch {self.step} could not be written ({error}); "
                "the previous one is kept and the run continues",
                stacklevel=2,
            )

    def _not_saved(self, error: OSError) -> str:
        on_disk = checkpoint.whole_steps(self.folder.checkpoints)
        there = f"the checkpoint of minibatch {on_disk[-1]} is on disk" if on_disk else "no checkpoint is on disk"
        return (
            f"the last weights, of minibatch {self.step}, could not be written ({error}); {there}. "
            f"Make room and continue with: sparsam train --resume {self.folder.path}"
        )

    def restore(self, saved: tuple[int, Any, dict[str, Any]]) -> None:
        """Go on from a checkpoint that the learner has loaded."""
        self.step, _, state = saved
        self._saved_step = self.step
        self.learner.time_steps = state["time_steps"]
        if self.curriculum and state["curriculum"]:
            self.curriculum.load_state_dict(state["curriculum"])
            self.curriculum.rise(self.step)
        if self.retreat and state.get("retreat"):
            self.retreat.load_state_dict(state["retreat"])
        self._loss_sum, self._loss_count = state["window"]
        self._seconds_before = state["seconds"]
        self.evaluation = state["evaluation"]

    def finish(self, reason: str, signal: int | None = None) -> Outcome:
        """Last checkpoint, last evaluation, result.json."""
        if reason != "interrupted" and self.retreat and self.retreat.settle():
            self._tell("retreat", self.step)
            self._saved_step = None  # a checkpoint of this minibatch has the weights that are lost
            self._evaluate()
        elif reason != "interrupted" and self.step % self.config.eval_every != 0:
            self._evaluate()
        self.save(last=True)
        outcome = Outcome(reason, self.step, self.seconds, self.level, self.evaluation, signal)
        self.write("end", reason=reason, seconds=round(self.seconds, 3), **self.evaluation)
        if self._writes and reason != "interrupted":
            self.folder.write_result(
                {
                    "reason": reason,
                    "step": self.step,
                    "seconds": round(self.seconds, 1),
                    "sequences": self.step * self._step_sequences,
                    "level": self.level,
                    "evaluation": self.evaluation,
                }
            )
        return outcome

    def close(self) -> None:
        self.display.close()
        if self._log is not None:
            self._log.close()


def train(
    config: RunConfig,
    folder: str | Path,
    resume: bool = False,
    display: progress.Progress | None = None,
    quiet: bool = False,
    force: bool = False,
    accept: Iterable[str] = (),
) -> Outcome:
    """Train as `config` says and keep everything in `folder`.

    With `resume` an existing run goes on from its newest whole checkpoint and, in one process or under
    torchrun, ends on the same bits as a run that was never interrupted. `force` replaces an existing run.
    `accept` names what may differ from the run's beginning or be lost: see `resume.ACCEPTABLE`.

    Raises NonFiniteLoss when the loss is not a number, NotSaved when the last weights could not be written. A run
    that cannot start leaves nothing behind, one that cannot go on stays as it was.
    """
    require_device(config.device)
    if config.workers and torch.device(config.device).type != "cpu":
        raise ValueError(
            f"device: expected 'cpu' with workers, which share parameters in CPU memory, got {config.device!r}"
        )
    if config.workers and config.curriculum and config.curriculum.retreat:
        raise ValueError("curriculum.retreat: expected None with workers, which would train on while others go back")
    if config.threads:
        torch.set_num_threads(config.threads)
    processes = Processes.from_environment(config.device, config.wait_seconds)
    try:
        if config.workers and processes.size > 1:
            raise ValueError("workers: expected 0 under torchrun, which is the other kind of parallel training")
        opened = OpenRun(config, RunFolder(folder), processes, resume, force, accept)
        opened.open()
        return _carry_out(opened, processes, display, quiet)
    finally:
        processes.close()


def _carry_out(opened: OpenRun, processes: Processes, display: progress.Progress | None, quiet: bool) -> Outcome:
    config, learner = opened.config, opened.learner
    if processes.rank != 0:
        display = progress.Silent()
    display = display or progress.choose(f"{config.model.name} on {config.task.name}", quiet)
    run = Run(config, opened.folder, learner, display, processes.rank == 0, processes.share, processes.size)
    failed = True
    try:
        if opened.saved is not None:
            run.restore(opened.saved)
        if config.workers:
            from sparsam.lab.training.workers import train_with_workers

            outcome = train_with_workers(run)
        else:
            run.open_log()
            outcome = _train_here(run, learner, processes)
        failed = False
        return outcome
    finally:
        run.close()
        opened.close(discard=failed and run.step == 0)


def _train_here(run: Run, learner: Learner, processes: Processes) -> Outcome:
    # A curriculum that is not timed chooses the next minibatch by the loss of this one, and processes exchange it.
    free = run.curriculum is None or run.curriculum.timed
    learner.deferred = processes.size == 1 and free and learner.on_gpu
    reason = "steps" if run.step >= run.config.steps else None
    with Interrupt() as interrupt:
        while reason is None:
            learner.share = run.share
            loss = learner.gradient(run.step, run.level)
            stop, late = interrupt.signal is not None, run.late
            if processes.size > 1 and not isinstance(loss, Tensor):
                loss, stop, late = processes.average(learner.flat, loss, stop, late)
            norm = learner.apply(run.step, loss, run.level)
            reason = run.record(loss, norm, late)
            if stop and reason is None:
                reason = "interrupted"
        return run.finish(reason, interrupt.signal if reason == "interrupted" else None)
