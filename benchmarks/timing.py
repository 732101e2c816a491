"""Fair timing on a noisy machine: the candidates take turns, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch, and with it the native core, on `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one candidate."""

    median: float
    fastest: float
    repeats: int


def take_turns(candidates: Mapping[str, Callable[[], object]], seconds: float, warmup: int = 2) -> dict[str, Timing]:
    """Call the candidates in turn until `seconds` are spent, at least 5 times each; a burst of noise hits them all."""
    for call in candidates.values():
        for _ in range(warmup):
            call()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, call in candidates.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: Timing(statistics.median(spent), min(spent), len(spent)) for name, spent in times.items()}


def once(call: Callable[[], object], repeats: int = 1) -> Timing:
    """For what takes seconds: a few calls without warm-up."""
    spent = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return Timing(statistics.median(spent), min(spent), repeats)
