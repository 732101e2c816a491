"""Benchmarks: commands that print target and reached. Speed is always a ratio measured in one run.

A module in `NAMES` whose `run(out, quick)` is decorated with `benchmark` is a command, `sparsam bench <module>`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sparsam.lab.registry import Registry

if TYPE_CHECKING:
    from benchmarks.report import Report

Run = Callable[[Path, bool], "Report"]


class Benchmark(NamedTuple):
    """A command of `sparsam bench`."""

    run: Run
    help: str  # one line
    threads: bool  # whether the number of threads can be set; otherwise it sets it itself


NAMES = (
    *("ann", "data", "gpu", "learn", "libraries", "memory", "padded", "ratios", "sdnc", "seam", "speed", "step"),
    "trainer",
)
BENCHMARKS: Registry[Benchmark] = Registry({name: f"benchmarks.{name}" for name in NAMES})


R = TypeVar("R", bound=Run)


def benchmark(help: str, threads: bool = True) -> Callable[[R], R]:
    """Make `run` of a module a command by the module's name."""

    def register(run: R) -> R:
        BENCHMARKS.add(run.__module__.rpartition(".")[2], Benchmark(run, help, threads))
        return run

    return register
