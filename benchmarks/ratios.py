"""SAM and SDNC beside `nn.LSTM(136, 100)` over batch sizes, lengths and threads; `sparsam bench speed` prints these.

    python -m benchmarks.ratios --out runs/bench

Memories are blank and hold 1,000,000 words; every ratio is of medians taken in turns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.sdnc import AGAINST_DNC, SHORT, seconds_of_both
from benchmarks.setting import BATCH, STEPS, lstm_step, model_of, training_step
from benchmarks.timing import take_turns, threads

MILLION = 1_000_000
BATCHES = (32, 128)
LENGTHS = {1_000: 1.9, 3_000: 3.0}  # steps and the bound of SAM over nn.LSTM there
MANY = 16  # threads of the line that says how SAM spreads over cores


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def add(report: Report, seconds: float, most: int | None = None, dense: bool = True) -> None:
    """Add every line that this machine has the cores for; `dense` asks for the DNC's as well, which takes a minute."""
    available = min(most or cores(), cores())
    for batch in BATCHES:
        for count in (1, 2):
            if count <= available:
                over_lstm(report, seconds, batch, count)
    for steps in LENGTHS:
        long_sequences(report, seconds, steps, min(2, available))
    for batch in (BATCH, *BATCHES):
        links(report, seconds, batch, min(2, available))
    if available >= MANY:
        many_threads(report, seconds)
    else:
        print(f"  {MANY} threads over 1: not measured, since this process has {available} cores")
    if dense:
        against_dnc(report)


def timed(
    report: Report, label: str, seconds: float, candidates: Mapping[str, Callable[[], object]]
) -> dict[str, float]:
    """Seconds per call of each candidate, medians, noted in microseconds under `label`."""
    times = take_turns(candidates, seconds)
    report.raw.setdefault("us per call", {})[label] = {name: timing.median * 1e6 for name, timing in times.items()}
    return {name: timing.median for name, timing in times.items()}


def over_lstm(report: Report, seconds: float, batch: int, count: int) -> None:
    """SAM over `nn.LSTM` at a larger batch."""
    label = f"B {batch}, T {STEPS}, {plural(count)}"
    sam = training_step(model_of("sam", MILLION), batch=batch)
    with threads(count):
        spent = timed(report, label, seconds, {"nn.LSTM": lstm_step(batch=batch), "SAM": sam})
    report.add(Line(f"SAM over nn.LSTM, {label}", spent["SAM"] / spent["nn.LSTM"], bound=1.6))


def long_sequences(report: Report, seconds: float, steps: int, count: int) -> None:
    """SAM over `nn.LSTM` when the memory fills and every written word is searched."""
    label = f"B {BATCH}, T {steps:,}, {plural(count)}"
    sam = training_step(model_of("sam", MILLION), steps=steps)
    with threads(count):
        spent = timed(report, label, seconds, {"nn.LSTM": lstm_step(steps=steps), "SAM": sam})
    report.add(Line(f"SAM over nn.LSTM, {label}", spent["SAM"] / spent["nn.LSTM"], bound=LENGTHS[steps]))


def links(report: Report, seconds: float, batch: int, count: int) -> None:
    """What temporal links add to SAM."""
    label = f"B {batch}, T {STEPS}, {plural(count)}, with links"
    models = {name.upper(): training_step(model_of(name, MILLION), batch=batch) for name in ("sam", "sdnc")}
    with threads(count):
        spent = timed(report, label, seconds, models)
    report.add(Line(f"SDNC over SAM, B {batch}, {plural(count)}", spent["SDNC"] / spent["SAM"], bound=1.25))


def many_threads(report: Report, seconds: float) -> None:
    """How SAM and `nn.LSTM` spread over sixteen threads at a batch of 128."""
    batch = BATCHES[-1]
    spent: dict[int, dict[str, float]] = {}
    candidates = {"nn.LSTM": lstm_step(batch=batch), "SAM": training_step(model_of("sam", MILLION), batch=batch)}
    for count in (1, MANY):
        with threads(count):
            spent[count] = timed(report, f"B {batch}, T {STEPS}, {plural(count)}, spread", seconds, candidates)
    gain = {name: spent[1][name] / spent[MANY][name] for name in candidates}
    report.add(Line(f"{MANY} threads over 1, SAM, B {batch}", gain["SAM"], bound=10, at_most=False))
    report.add(Line(f"{MANY} threads over 1, nn.LSTM, B {batch}", gain["nn.LSTM"]))
    ratio = spent[MANY]["SAM"] / spent[MANY]["nn.LSTM"]
    report.add(Line(f"SAM over nn.LSTM, B {batch}, T {STEPS}, {plural(MANY)}", ratio))


def against_dnc(report: Report) -> None:
    """The dense model over the sparse one, as `sparsam bench sdnc` has it."""
    spent = seconds_of_both()
    figure = f"DNC over SDNC, N = {AGAINST_DNC:,}, T {SHORT}, B {BATCH}"
    report.add(Line(figure, spent["dnc"] / spent["sdnc"], bound=2_000, at_most=False, paper="440"))


def plural(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ratios", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each line")
    parser.add_argument("--cores", type=int, help="use no more than these")
    parser.add_argument("--no-dense", action="store_true", help="leave the DNC out, which takes a minute")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    given = parser.parse_args()
    print(f"native equals reference to {max(require_equal('sam'), require_equal('sdnc')):.0e}")
    report = Report("ratios")
    add(report, given.seconds, given.cores, not given.no_dense)
    print(report.table())
    print(report.write(given.out))


if __name__ == "__main__":
    main()
