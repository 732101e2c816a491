"""Asynchronous training: worker processes that update one set of parameters without waiting for each other.

As in the paper (8 asynchronous workers) and in Hogwild (Niu et al. 2011): parameters and RMSProp statistics lie in
shared memory, each worker draws its own minibatches, differentiates a copy-free view of the parameters and applies its
step in place, without locks. The parent process keeps the books: curriculum, log, evaluation, checkpoints.

Updates may interleave, so a run does not repeat bit for bit; resuming goes on from the last checkpoint's
weights, statistics and level.

A worker may be killed or stopped at any moment. So nothing is shared that it could take with it, such as a lock or a
queue that all write to: each has a pipe of its own, read by a thread of the parent, and the pipe's end tells of its
death at once.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.interrupt import Interrupt
from sparsam.lab.training.learner import Learner, NonFiniteLoss
from sparsam.lab.training.loop import Outcome, Run
from sparsam.lab.training.optimizer import share_state
from sparsam.lab.training.user_classes import use_again, used

_REPORT_SECONDS = 0.2
_LOOK_SECONDS = 0.5  # how often the parent looks for signals and silent workers
_END_SECONDS = 5.0  # what a worker has to finish its minibatch when the run ends
_START_SECONDS = 120.0  # what a worker has for its first minibatch, on top of `wait_seconds`
_REPLACEMENTS = 3  # of each worker


class WorkerDied(RuntimeError):
    """A worker process is gone and is not replaced."""


def train_with_workers(run: Run) -> Outcome:
    """Train with `config.workers` processes; `run` has been restored and its log not yet opened."""
    config, learner = run.config, run.learner
    learner.flat.parameters.share_memory_()
    share_state(learner.optimizer)
    run.open_log()
    if run.step >= config.steps:
        return run.finish("steps")
    crew = Crew(config, {"parameters": learner.flat.parameters.detach(), "statistics": _statistics(learner)}, run.step)
    reason: str | None = None
    try:
        with Interrupt() as interrupt:
            crew.start(run.level)
            while reason is None:
                reason = _take_in(run, crew)
                crew.level = run.level
                if interrupt.signal is not None and reason is None:
                    reason = "interrupted"
            crew.end()
            return run.finish(reason, interrupt.signal if reason == "interrupted" else None)
    except WorkerDied as error:
        crew.end()
        run.save(last=True)
        raise WorkerDied(f"{error}. Minibatch {run.step} is saved; --resume continues") from None
    finally:
        crew.end()


def _take_in(run: Run, crew: Crew) -> str | None:
    """Record what the next report says; why to stop, or None."""
    report = crew.next_report()
    if report is None:
        return None
    if "failure" in report:
        if report["non_finite"]:
            raise NonFiniteLoss(report["failure"])
        raise RuntimeError(f"a worker process failed:\n{report['failure']}")
    if "began" in report:
        run.write("worker", worker=report["began"].rank, process=report["began"].process.pid)
    run.learner.errors = report["errors"]
    run.learner.time_steps += report["time_steps"]
    for loss, norm in report["steps"]:
        reason = run.record(loss, norm)
        if reason is not None:
            return reason
    return None


class Worker:
    """One process, the thread that reads its reports, and when it last gave one."""

    def __init__(self, rank: int, process: Any, pipe: Connection, reports: queue.Queue) -> None:
        self.rank, self.process = rank, process
        self.due = time.perf_counter() + _START_SECONDS
        self.gone = self.began = False
        threading.Thread(target=self._read, args=(pipe, reports), daemon=True, name=f"worker-{rank}").start()

    def _read(self, pipe: Connection, reports: queue.Queue) -> None:
        try:
            while True:
                reports.put((self, pipe.recv()))
        except Exception:  # its end, perhaps in the middle of a report
            reports.put((self, None))


class Crew:
    """The workers: starts them, hands on their reports, replaces those that die or fall silent."""

    def __init__(self, config: RunConfig, shared: dict[str, Any], first: int) -> None:
        self._config, self._shared, self._first = config, shared, first
        self._context = mp.get_context("spawn")
        self._level = self._context.Value("q", 0, lock=False)
        self._stop = self._context.Value("b", 0, lock=False)
        self._reports: queue.Queue = queue.Queue()
        self._workers: dict[int, Worker] = {}
        self._replaced = dict.fromkeys(range(1, config.workers + 1), 0)
        self._steps = first
        self._looked = time.perf_counter()

    @property
    def level(self) -> int | None:
        return self._level.value or None

    @level.setter
    def level(self, value: int | None) -> None:
        self._level.value = value or 0

    def start(self, level: int | None) -> None:
        self.level = level
        for rank in self._replaced:
            self._start(rank)

    def _start(self, rank: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        # A replacement begins where the run is, so that it draws other minibatches than the one before it did.
        arguments = (rank, self._config, self._shared, self._steps, self._level, self._stop, theirs)
        process = self._context.Process(target=_work, args=(used(), *arguments), daemon=True)
        process.start()
        theirs.close()  # the worker's copy is the only one left: the pipe ends with it
        self._workers[rank] = Worker(rank, process, ours, self._reports)
        self._workers[rank].due += self._config.wait_seconds

    def next_report(self) -> dict[str, Any] | None:
        """The next report, or None when there is none for a moment."""
        self._look_for_silent_ones()
        try:
            worker, report = self._reports.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return None
        if report is None:
            if not worker.gone:
                worker.process.join(_END_SECONDS)
                self._lost(worker, f"ended with exit code {worker.process.exitcode}")
            return None
        worker.due = time.perf_counter() + self._config.wait_seconds
        self._steps += len(report.get("steps", ()))
        if not worker.began:
            worker.began = True
            report["began"] = worker
        return report

    def _look_for_silent_ones(self) -> None:
        now = time.perf_counter()
        paused, self._looked = now - self._looked > 2 * _LOOK_SECONDS, now
        if paused:  # the parent itself was away, evaluating or writing: what came meanwhile is still to be read
            return
        for worker in list(self._workers.values()):
            if now > worker.due and not worker.gone and self._reports.empty():
                self._lost(worker, f"has not reported for {self._config.wait_seconds:g} s (wait_seconds)")

    def _lost(self, worker: Worker, how: str) -> None:
        worker.gone = True
        _kill(worker)
        what = f"worker {worker.rank} (process {worker.process.pid}) {how}"
        if self._config.when_workers_die == "end":
            raise WorkerDied(what)
        self._replaced[worker.rank] += 1
        if self._replaced[worker.rank] > _REPLACEMENTS:
            raise WorkerDied(f"{what}; it was replaced {_REPLACEMENTS} times before")
        warnings.warn(f"{what}; replacing it", stacklevel=4)
        self._start(worker.rank)

    def end(self) -> None:
        """Let the workers finish their minibatch; those that do not are killed. Takes a few seconds at most."""
        self._stop.value = 1
        deadline = time.perf_counter() + _END_SECONDS
        workers = [worker for worker in self._workers.values() if not worker.gone]
        for worker in workers:
            worker.gone = True
            worker.process.join(max(0.0, deadline - time.perf_counter()))
        for worker in workers:
            _kill(worker)


def _kill(worker: Worker) -> None:
    """SIGKILL reaches a stopped process as well, which SIGTERM does not."""
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join(_END_SECONDS)


def _work(own: list[tuple[str, str]], rank: int, config: RunConfig, *more: Any) -> None:
    """What a worker process does: `_learn`, until it cannot."""
    reports: Connection = more[-1]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    torch.set_num_threads(config.threads or 1)
    try:
        try:
            use_again(own)
            _learn(rank, config, *more)
        except NonFiniteLoss as error:
            reports.send({"failure": str(error), "non_finite": True})
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception:
            reports.send({"failure": traceback.format_exc(), "non_finite": False})
    except OSError:
        pass  # the parent is gone


def _learn(
    rank: int, config: RunConfig, shared: dict[str, Any], first: int, level: Any, stop: Any, reports: Connection
) -> None:
    learner = Learner(config, rank, shared["parameters"])
    share_state(learner.optimizer)  # creates the statistics, which are then replaced by the shared ones
    learner.optimizer.state[learner.flat.parameters].update(shared["statistics"])
    parent = os.getppid()
    step, pending, reported, sent_at = first, [], learner.time_steps, time.perf_counter()
    while not stop.value and os.getppid() == parent:
        now = level.value or None
        loss = learner.gradient(step, now)
        pending.append((loss, learner.apply(step, loss, now)))
        step += 1
        if time.perf_counter() - sent_at > _REPORT_SECONDS:
            reports.send({"steps": pending, "errors": learner.errors, "time_steps": learner.time_steps - reported})
            pending, reported, sent_at = [], learner.time_steps, time.perf_counter()


def _statistics(learner: Learner) -> dict[str, Tensor]:
    state = learner.optimizer.state[learner.flat.parameters]
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}
