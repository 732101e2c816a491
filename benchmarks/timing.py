"""Fair timing on a noisy machine: the candidates take turns, and medians are compared.

With one thread processor time is read, which another process on the core does not add to. `Watch` says how much of the
machine others had meanwhile.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

QUIET = 0.15  # cores that others may use while a reading still counts
SPREAD = 0.15  # of the median: the middle half of the repeats of a reading that counts


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
    spread: float = 0.0  # of the middle half of the repeats, as a share of the median

    @staticmethod
    def of(seconds: list[float]) -> Timing:
        middle = statistics.median(seconds)
        quarters = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [middle, middle, middle]
        return Timing(middle, min(seconds), len(seconds), (quarters[2] - quarters[0]) / middle if middle else 0.0)


def clock() -> float:
    """Seconds of this process: of its processor with one thread, of the wall with several."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


class Watch:
    """How many cores other processes have used since the watch was made or last read; None where nobody tells."""

    def __init__(self) -> None:
        self._before = self._now()

    def read(self) -> float | None:
        before, self._before = self._before, self._now()
        if before is None or self._before is None:
            return None
        wall, everybody, mine = (now - then for now, then in zip(self._before, before))
        return max(0.0, (everybody - mine) / wall) if wall > 0 else None

    @staticmethod
    def _now() -> tuple[float, float, float] | None:
        try:
            fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        except (OSError, IndexError):
            return None
        user, nice, system, _, _, interrupts, soft, *stolen = (int(field) for field in fields)
        ticks = user + nice + system + interrupts + soft + sum(stolen[:1])
        own = os.times()
        mine = own.user + own.system + own.children_user + own.children_system
        return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), mine


def take_turns(candidates: Mapping[str, Callable[[], object]], seconds: float, warmup: int = 2) -> dict[str, Timing]:
    """Call the candidates in turn until `seconds` are spent, at least 5 times each; a burst of noise hits them all."""
    for call in candidates.values():
        for _ in range(warmup):
            call()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, call in candidates.items():
            begin = clock()
            call()
            times[name].append(clock() - begin)
    return {name: Timing.of(spent) for name, spent in times.items()}


def once(call: Callable[[], object], repeats: int = 1) -> Timing:
    """For what takes seconds: a few calls without warm-up."""
    spent = []
    for _ in range(repeats):
        begin = clock()
        call()
        spent.append(clock() - begin)
    return Timing.of(spent)
