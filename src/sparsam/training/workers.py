"""Asynchronous training: worker processes that update one set of parameters without waiting for each other.

As in the paper (8 asynchronous workers) and in Hogwild (Niu et al. 2011): parameters and RMSProp statistics
lie in shared memory, each worker draws its own minibatches, differentiates a copy-free view of the
parameters and applies its step in place, without locks. The parent process keeps the books: curriculum,
log, evaluation, checkpoints.

Updates may interleave, so a run does not repeat bit for bit; resuming goes on from the last checkpoint's
weights, statistics and level.
"""

from __future__ import annotations

import os
import queue
import signal
import time
import traceback
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import Tensor

from sparsam.training.config import RunConfig
from sparsam.training.folder import RunFolder
from sparsam.training.interrupt import Interrupt
from sparsam.training.learner import Learner, NonFiniteLoss
from sparsam.training.loop import Outcome, Run
from sparsam.training.optimizer import share_state
from sparsam.training.progress import Progress

_REPORT_SECONDS = 0.2


def train_with_workers(config: RunConfig, folder: RunFolder, learner: Learner, display: Progress) -> Outcome:
    """Train with ``config.workers`` processes."""
    if torch.device(config.device).type != "cpu":
        raise ValueError(f"workers share parameters in CPU memory; device must be 'cpu', got {config.device!r}")
    run = Run(config, folder, learner, display)
    run.load()
    learner.flat.parameters.share_memory_()
    share_state(learner.optimizer)
    run.open_log()
    if run.step >= config.steps:
        outcome = run.finish("steps")
        run.close()
        return outcome
    context = mp.get_context("spawn")
    level = context.Value("q", run.level or 0, lock=False)
    stop = context.Event()
    reports: Any = context.Queue()
    shared = {"parameters": learner.flat.parameters.detach(), "statistics": _statistics(learner)}
    workers = [
        context.Process(target=_work, args=(rank, config, shared, run.step, level, stop, reports), daemon=True)
        for rank in range(1, config.workers + 1)
    ]
    reason: str | None = None
    try:
        with Interrupt() as interrupt:
            for worker in workers:
                worker.start()
            while reason is None:
                reason = _take_report(run, reports, workers)
                level.value = run.level or 0
                if interrupt.signal is not None and reason is None:
                    reason = "interrupted"
            _stop(workers, stop, reports)
            return run.finish(reason, interrupt.signal if reason == "interrupted" else None)
    finally:
        _stop(workers, stop, reports)
        run.close()


def _take_report(run: Run, reports: Any, workers: list[Any]) -> str | None:
    try:
        report = reports.get(timeout=1.0)
    except queue.Empty:
        dead = [worker for worker in workers if worker.exitcode not in (None, 0)]
        if dead:
            raise RuntimeError(f"a worker process ended with exit code {dead[0].exitcode}") from None
        return None
    if "failure" in report:
        if report["non_finite"]:
            raise NonFiniteLoss(report["failure"])
        raise RuntimeError(f"a worker process failed:\n{report['failure']}")
    run.learner.errors = report["errors"]
    run.learner.time_steps += report["time_steps"]
    for loss, norm in report["steps"]:
        reason = run.record(loss, norm)
        if reason is not None:
            return reason
    return None


def _work(
    rank: int, config: RunConfig, shared: dict[str, Any], first: int, level: Any, stop: Any, reports: Any
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    torch.set_num_threads(config.threads or 1)
    try:
        _learn(rank, config, shared, first, level, stop, reports)
    except NonFiniteLoss as error:
        reports.put({"failure": str(error), "non_finite": True})
    except Exception:
        reports.put({"failure": traceback.format_exc(), "non_finite": False})


def _learn(
    rank: int, config: RunConfig, shared: dict[str, Any], first: int, level: Any, stop: Any, reports: Any
) -> None:
    learner = Learner(config, rank, shared["parameters"])
    share_state(learner.optimizer)  # creates the statistics, which are then replaced by the shared ones
    learner.optimizer.state[learner.flat.parameters].update(shared["statistics"])
    parent = os.getppid()
    step, pending, reported, sent_at = first, [], learner.time_steps, time.perf_counter()
    while not stop.is_set() and os.getppid() == parent:
        now = level.value or None
        loss = learner.gradient(step, now)
        pending.append((loss, learner.apply(step, loss, now)))
        step += 1
        if time.perf_counter() - sent_at > _REPORT_SECONDS:
            reports.put({"steps": pending, "errors": learner.errors, "time_steps": learner.time_steps - reported})
            pending, reported, sent_at = [], learner.time_steps, time.perf_counter()


def _statistics(learner: Learner) -> dict[str, Tensor]:
    state = learner.optimizer.state[learner.flat.parameters]
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}


def _stop(workers: list[Any], stop: Any, reports: Any) -> None:
    stop.set()
    deadline = time.perf_counter() + 10
    for worker in workers:
        while worker.is_alive() and time.perf_counter() < deadline:
            try:  # a worker cannot end while its last report waits to be taken
                reports.get(timeout=0.05)
            except queue.Empty:
                pass
            except (OSError, ValueError):
                break
        if worker.is_alive():
            worker.terminate()
