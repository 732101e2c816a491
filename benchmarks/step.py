"""`sparsam bench step`: one step per call, as in serving and reinforcement learning, beside `nn.LSTM` called so.

It also says what `import sparsam` takes where torch has been imported.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import benchmark
from benchmarks.report import Line, Report
from benchmarks.setting import LSTM_INPUT, SIZES, model_of
from benchmarks.timing import take_turns

MILLION = 1_000_000
CALLS = 50  # one-step calls before a backward pass
FILLING = 4_000  # one-step calls over which the cost of a call is followed
IMPORT = "import time, torch; begin = time.perf_counter(); import sparsam; print(time.perf_counter() - begin)"


@benchmark("Calls with a single step, compared with nn.LSTM.", threads=False)
def run(out: Path, quick: bool = False) -> Report:
    """Time, print, and write step.json."""
    report = Report("step")
    seconds = 2.0 if quick else 8.0
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for batch in (1, 16):
        names = {"SAM": stream(model_of("sam", MILLION), batch, 8), "nn.LSTM": stream(lstm(), batch, LSTM_INPUT)}
        times = take_turns(names, seconds, warmup=5)
        report.raw[f"us per call, B {batch}"] = {n: t.median * 1e6 for n, t in times.items()}
        ratio = times["SAM"].median / times["nn.LSTM"].median
        report.add(Line(f"one step per call, no gradient, one thread, B {batch}, over nn.LSTM", ratio, bound=1.8))
    names = {"SAM": rollout(model_of("sam", MILLION), 16, 8), "nn.LSTM": rollout(lstm(), 16, LSTM_INPUT)}
    times = take_turns(names, seconds)
    report.raw["ms per rollout"] = {n: t.median * 1e3 for n, t in times.items()}
    ratio = times["SAM"].median / times["nn.LSTM"].median
    report.add(Line(f"{CALLS} one-step calls and one backward, B 16, over nn.LSTM", ratio, bound=3))
    filled = {}
    for index in ("linear", "auto"):
        first, last = filling(model_of("sam", MILLION, index=index), 16, FILLING)
        filled[index] = {"first": first * 1e6, "last": last * 1e6}
        how = "exact search" if index == "linear" else f"index={index!r}"
        name = f"a call as the memory fills to {4 * FILLING:,} words, {how}, last over first of {FILLING:,}"
        report.add(Line(name, last / first, bound=1.5))
    report.raw["us per call as the memory fills"] = filled
    report.raw["seconds of import"] = imported = import_seconds(5)
    report.add(Line("import sparsam beyond import torch", statistics.median(imported), "s", bound=0.15))
    torch.set_num_threads(threads)
    print(report.table())
    print(report.write(out))
    return report


def lstm() -> Any:
    return nn.LSTM(LSTM_INPUT, SIZES["hidden_size"])


def stream(model: Any, batch: int, width: int) -> Callable[[], None]:
    """One step without gradients, from the state before, a fresh one every 100 calls."""
    x = torch.randn(1, batch, width)
    held: list[Any] = [None, 0]

    def call() -> None:
        with torch.no_grad():
            _, held[0] = model(x, held[0])
        held[1] += 1
        if held[1] % 100 == 0:
            held[0] = None

    return call


def rollout(model: Any, batch: int, width: int) -> Callable[[], None]:
    """One-step calls whose states hang together, then one backward pass."""
    x = torch.randn(CALLS, 1, batch, width)

    def call() -> None:
        state, total = None, torch.zeros(())
        for step in x:
            y, state = model(step, state)
            total = total + y.sum()
        total.backward()

    return call


def import_seconds(times: int) -> list[float]:
    """Seconds of `import sparsam` in processes of its own, torch being there; one before them leaves bytecode."""
    command, compiled = [sys.executable, "-c", IMPORT], {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    runs = [subprocess.run(command, env=compiled, capture_output=True, check=True) for _ in range(times + 1)]
    return [float(run.stdout) for run in runs][1:]


def filling(model: Any, batch: int, calls: int) -> tuple[float, float]:
    """Seconds per call over the first and the last tenth of `calls` one-step calls."""
    state, spent = None, []
    with torch.no_grad():
        for _ in range(calls):
            x = torch.randn(1, batch, SIZES["input_size"])
            begin = time.perf_counter()
            _, state = model(x, state)
            spent.append(time.perf_counter() - begin)
    tenth = calls // 10
    first, last = sorted(spent[:tenth]), sorted(spent[-tenth:])
    return first[tenth // 2], last[tenth // 2]
