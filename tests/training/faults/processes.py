"""Faults of processes: workers that die or freeze, a rank that dies under torchrun."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import Bench, Result
from injection import Ended, in_child, same_bits

from sparsam.cli import main
from sparsam.training import checkpoint
from sparsam.training.folder import RunFolder


def workers(bench: Bench, count: int) -> Iterator[Result]:
    """Workers that are killed are replaced or end the run; frozen ones do not hold up Ctrl-C."""
    for number in range(count):
        yield "a killed worker is replaced", _killed_worker(bench, "replace", number)
        yield "a killed worker ends the run", _killed_worker(bench, "end", number)
        yield "frozen workers and Ctrl-C", _frozen_workers(bench)
        yield "a frozen worker is replaced", _frozen_worker(bench)


def dead_workers(bench: Bench, count: int) -> Iterator[Result]:
    """The two of these that matter most."""
    for number in range(count):
        yield "a killed worker is replaced", _killed_worker(bench, "replace", number)
        yield "frozen workers and Ctrl-C", _frozen_workers(bench)


def _start_workers(bench: Bench, folder: Path, *settings: str) -> subprocess.Popen[str]:
    endless = ["steps=1000000000", "eval_every=1000000000", "checkpoint_every=1000000000", "log_every=20", "workers=2"]
    command = [sys.executable, "-m", "sparsam.cli", "train", "--config", str(bench.config_file), "--out", str(folder),
               "-q", *(part for setting in [*endless, *settings] for part in ("--set", setting))]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _wait(lambda: len(RunFolder(folder).events("worker")) >= 2 or process.poll() is not None, 120)
    return process


def _workers_of(folder: Path) -> list[int]:
    """The processes that are at work, by the log."""
    pids = {event["worker"]: event["process"] for event in RunFolder(folder).events("worker")}
    return [pids[worker] for worker in sorted(pids)]


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _end(process: subprocess.Popen[str], sent: int | None, seconds: float = 40.0) -> Ended:
    if sent is not None:
        process.send_signal(sent)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return Ended(process.returncode, out, err)


def _killed_worker(bench: Bench, when: str, number: int) -> str | None:
    folder = bench.fresh()
    process = _start_workers(bench, folder, f"when_workers_die={when}")
    victims = _workers_of(folder)
    if len(victims) != 2:
        return f"found workers {victims}: {_end(process, signal.SIGKILL).err}"
    time.sleep(random.Random(number).uniform(0, 0.3))
    os.kill(victims[number % 2], signal.SIGKILL)
    if when == "replace":
        if not _wait(lambda: _workers_of(folder) != victims, 60):
            return f"was not replaced: {_end(process, signal.SIGKILL).err}"
        ended = _end(process, signal.SIGINT)
        said = f"(process {victims[number % 2]}) ended with exit code -9; it is replaced"
        good = ended.code == 130 and said in ended.err
    else:
        ended = _end(process, None)
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
    folder = bench.fresh()
    process = _start_workers(bench, folder)
    frozen = _workers_of(folder)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    before = time.monotonic()
    ended = _end(process, signal.SIGINT)
    took = time.monotonic() - before
    alive = [pid for pid in frozen if Path(f"/proc/{pid}").exists()]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    if ended.code != 130 or took > 20:
        return f"code {ended.code} after {took:.0f} s: {ended.err}"
    return f"left processes {alive}" if alive else None


def _frozen_worker(bench: Bench) -> str | None:
    folder = bench.fresh()
    process = _start_workers(bench, folder, "wait_seconds=2")
    frozen = _workers_of(folder)
    os.kill(frozen[0], signal.SIGSTOP)
    replaced = _wait(lambda: not Path(f"/proc/{frozen[0]}").exists() and _workers_of(folder) != frozen, 60)
    ended = _end(process, signal.SIGINT)
    good = replaced and ended.code == 130 and "has not reported for 2 s" in ended.err
    return None if good else f"code {ended.code}: {ended.err}"


def torchrun(bench: Bench, count: int) -> Iterator[Result]:
    """A rank of two is killed: the others end soon, and the run goes on to the same bits."""
    for number in range(count):
        whole, folder = bench.scratch / "ranks", bench.fresh()
        if not whole.exists():
            ended = _end(_launch(bench, whole), None, 120)
            if ended.code != 0:
                yield "torchrun", f"code {ended.code}: {ended.err[-2000:]}"
                return
        process = _launch(bench, folder)
        _wait(lambda at=folder, p=process: bool(checkpoint.steps(at / "checkpoints")) or p.poll() is not None, 120)
        ranks = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        victims = [int(pid) for pid in ranks if b"sparsam.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        time.sleep(random.Random(number).uniform(0, 0.1))
        os.kill(victims[number % len(victims)], signal.SIGKILL)
        dead = _end(process, None, 90)
        again = _end(_launch(bench, folder), None, 120)
        problem = None
        if dead.code == 0 or dead.code == -9:
            problem = f"with a dead rank it ended with code {dead.code}"
        elif again.code != 0:
            problem = f"could not go on, code {again.code}: {again.err[-2000:]}"
        elif not same_bits(whole, folder):
            problem = "other bits"
        yield f"rank {number % len(victims)} of 2 killed under torchrun", problem


def _launch(bench: Bench, folder: Path) -> subprocess.Popen[str]:
    how = ["--resume", str(folder)] if (folder / "config.json").exists() else ["--out", str(folder)]
    more = ["--config", str(bench.config_file)] if how[0] == "--out" else []
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
               "-m", "sparsam.cli", "train", *how, *more, "-q", "--steps", "400",
               "--set", "checkpoint_every=20"]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
