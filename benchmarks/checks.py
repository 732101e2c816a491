"""What the checks of arguments and states cost: `python -m benchmarks.checks`, calls with them and without in turn.

Without: the checks of the input and of the state in Python do nothing. What the core checks of arrays (their type,
shape and bounds, once per call) stays in both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.setting import model_of
from sparsam import checks
from sparsam.engines.native.engine import NativeEngine
from sparsam.models.contract import Recurrent

CALLS = {"50 steps, forward and backward, B 8": (50, 8, True), "one step per call, no gradient, B 8": (1, 8, False)}


@contextmanager
def unchecked() -> Iterator[None]:
    """The checks of inputs and states replaced by nothing."""

    def as_it_is(x: Any, input_size: int, batch_first: bool, parameter: Any) -> Any:
        return x.transpose(0, 1) if batch_first else x

    kept = checks.sequence, Recurrent._fits, NativeEngine.check
    checks.sequence = as_it_is
    Recurrent._fits = lambda self, plan, state, batch, like: True  # type: ignore[method-assign]
    NativeEngine.check = lambda self, memory, state: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        checks.sequence, Recurrent._fits, NativeEngine.check = kept  # type: ignore[method-assign]


def call_of(steps: int, batch: int, backward: bool) -> Callable[[], None]:
    model, x = model_of("sam", 65_536), torch.randn(steps, batch, 8)
    with torch.no_grad():
        _, state = model(x)

    def call() -> None:
        if backward:
            model(x, state)[0].sum().backward()
        else:
            with torch.no_grad():
                model(x, state)

    return call


def share(steps: int, batch: int, backward: bool, seconds: float) -> dict[str, float]:
    """Microseconds of a call, and the checks' share: the median over pairs of neighbouring calls."""
    call = call_of(steps, batch, backward)
    for _ in range(20):
        call()
    spent: dict[bool, list[float]] = {True: [], False: []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for checked in (True, False):
            if checked:
                begin = time.perf_counter()
                call()
                spent[True].append(time.perf_counter() - begin)
                continue
            with unchecked():
                begin = time.perf_counter()
                call()
                spent[False].append(time.perf_counter() - begin)
    with_checks, without = (statistics.median(spent[checked]) for checked in (True, False))
    return {
        "us with checks": round(1e6 * with_checks, 1),
        "us without": round(1e6 * without, 1),
        "share": round(1 - without / with_checks, 4),
        "share of the fastest": round(1 - min(spent[False]) / min(spent[True]), 4),
        "pairs": len(spent[True]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps({name: share(*how, given.seconds) for name, how in CALLS.items()}, indent=1))


if __name__ == "__main__":
    main()
