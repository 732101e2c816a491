"""Workers that die or freeze."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import Bench, Result
from injection import PATIENCE, Ended, finish, gone, in_child, start_child

from sparsam.lab.cli import main
from sparsam.lab.training import checkpoint
from sparsam.lab.training.folder import RunFolder


def workers(bench: Bench, count: int) -> Iterator[Result]:
    """Workers that are killed are replaced or end the run; frozen ones do not hold up Ctrl-C."""
    for number in bench.mine(list(range(count))):
        yield "a killed worker is replaced", _killed_worker(bench, "replace", number)
        yield "a killed worker ends the run", _killed_worker(bench, "end", number)
        yield "frozen workers and Ctrl-C", _frozen_workers(bench)
        yield "a frozen worker is replaced", _frozen_worker(bench)


def dead_workers(bench: Bench, count: int) -> Iterator[Result]:
    """The two of these that matter most."""
    for number in bench.mine(list(range(count))):
        yield "a killed worker is replaced", _killed_worker(bench, "replace", number)
        yield "frozen workers and Ctrl-C", _frozen_workers(bench)


def _start_workers(bench: Bench, folder: Path, *settings: str) -> int:
    endless = ["steps=1000000000", "eval_every=1000000000", "checkpoint_every=1000000000", "log_every=20", "workers=2"]
    options = [part for setting in [*endless, *settings] for part in ("--set", setting)]
    child = start_child(bench.command(folder, lambda: None, *options), bench.scratch)
    wait(lambda: len(RunFolder(folder).events("worker")) >= 2 or gone(child))
    return child


def _workers_of(folder: Path) -> list[int]:
    """The processes that are at work, by the log."""
    pids = {event["worker"]: event["process"] for event in RunFolder(folder).events("worker")}
    return [pids[worker] for worker in sorted(pids)]


def wait(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _end(bench: Bench, child: int, sent: int) -> Ended:
    os.kill(child, sent)
    return finish(child, bench.scratch)


def _killed_worker(bench: Bench, when: str, number: int) -> str | None:
    folder = bench.fresh()
    child = _start_workers(bench, folder, f"when_workers_die={when}")
    victims = _workers_of(folder)
    if len(victims) != 2:
        return f"found workers {victims}: {_end(bench, child, signal.SIGKILL).err}"
    time.sleep(random.Random(number).uniform(0, 0.3))
    os.kill(victims[number % 2], signal.SIGKILL)
    if when == "replace":
        if not wait(lambda: _workers_of(folder) != victims):
            return f"was not replaced: {_end(bench, child, signal.SIGKILL).err}"
        ended = _end(bench, child, signal.SIGINT)
        said = f"(process {victims[number % 2]}) ended with exit code -9"
        good = ended.code == 130 and said in ended.err
    else:
        ended = finish(child, bench.scratch)
        good = ended.code == 1 and "ended with exit code -9" in ended.err and "is saved" in ended.err
    if not good:
        return f"code {ended.code}: {ended.err}"
    step = checkpoint.load_newest(folder / "checkpoints")[0]
    ended = in_child(
        lambda: main(["train", "--resume", str(folder), "-q", "--steps", str(step + 3), "--set", "workers=0"]),
        bench.scratch,
    )
    return None if ended.code == 0 else f"could not go on, code {ended.code}: {ended.err}"


def _frozen_workers(bench: Bench) -> str | None:
    """Their silence is allowed for longer than PATIENCE, so a command that waited for them would not end."""
    folder = bench.fresh()
    child = _start_workers(bench, folder, f"wait_seconds={100 * PATIENCE}")
    frozen = _workers_of(folder)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    ended = _end(bench, child, signal.SIGINT)
    wait(lambda: all(gone(pid) for pid in frozen))
    alive = [pid for pid in frozen if not gone(pid)]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    if ended.code != 130:
        return f"code {ended.code}: {ended.err}"
    return f"left processes {alive}" if alive else None


def _frozen_worker(bench: Bench) -> str | None:
    folder = bench.fresh()
    child = _start_workers(bench, folder, "wait_seconds=2")
    frozen = _workers_of(folder)
    os.kill(frozen[0], signal.SIGSTOP)
    replaced = wait(lambda: not Path(f"/proc/{frozen[0]}").exists() and _workers_of(folder) != frozen)
    ended = _end(bench, child, signal.SIGINT)
    good = replaced and ended.code == 130 and "has not reported for 2 s" in ended.err
    return None if good else f"code {ended.code}: {ended.err}"
