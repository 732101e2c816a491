"""`sparsam bench ratios`: SAM, SDNC and the layer beside `nn.LSTM`: batches, lengths, threads, filled memories.

Memories are blank and hold 1,000,000 words where nothing else is said; every ratio is of medians taken in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.setting import BATCH, SIZES, STEPS, lstm_step, model_of, training_step
from benchmarks.timing import Timing, take_turns, threads
from sparsam.lab.cli.info import cores

MILLION = 1_000_000
# Batch, steps, and the most that SAM may take of nn.LSTM's time with one and with two threads.
OVER_LSTM = {(8, 100): (1.5, 1.2), (32, 100): (1.6, 1.5), (128, 50): (1.3, 1.3), (8, 1_000): (2.0, 1.4)}
LINKS = {8: (1.25, 1.15), 32: (1.25, 1.15), 128: (1.25, 1.15)}  # the same of the SDNC over SAM
LAYER = 0.7  # SparseMemory over SAM
FILLED = (10_000, 100_000, MILLION)  # words that a memory starts with
SEARCH = {("auto", MILLION): 400.0, ("kdtree", MILLION): 500.0, ("lsh", MILLION): 500.0}  # us a step, one thread
FASTER = {("kdtree", MILLION): 0.1, ("lsh", MILLION): 0.1}  # the same over exact search
SCAN = 8.0  # a step at a million words over one at 10,000, by auto, which scans
GROWTH = {"linear": 2.0, "auto": 1.5}  # of a token's cost along the rows written
WRITTEN = 50_000


@benchmark("SAM, SDNC and SparseMemory compared with nn.LSTM, by batch, length, threads and memory.", threads=False)
def run(out: Path, quick: bool = False) -> Report:
    """Check, time, print, and write ratios.json."""
    print(f"native equals reference to {max(require_equal('sam'), require_equal('sdnc')):.0e}")
    report, seconds = Report("ratios"), 1.5 if quick else 6.0
    for count in (1, 2):
        if count > cores():
            print(f"  {plural(count)}: not measured, since this process has {cores()} core")
            continue
        with threads(count):
            over_lstm(report, seconds, count)
            links(report, seconds, count)
            layer(report, seconds, count)
    with threads(1):
        filled(report, seconds, FILLED[:2] if quick else FILLED)
        written(report, WRITTEN // 10 if quick else WRITTEN)
    print(report.table())
    print(report.write(out))
    return report


def timed(
    report: Report, label: str, seconds: float, candidates: Mapping[str, Callable[[], object]]
) -> dict[str, Timing]:
    """Each candidate's time per call, noted in microseconds under `label`."""
    times = take_turns(candidates, seconds)
    report.raw.setdefault("us per call", {})[label] = {name: timing.median * 1e6 for name, timing in times.items()}
    return times


def over_lstm(report: Report, seconds: float, count: int) -> None:
    """SAM over `nn.LSTM`."""
    for (batch, steps), bounds in OVER_LSTM.items():
        label = f"B {batch}, T {steps:,}, {plural(count)}"
        sam = training_step(model_of("sam", MILLION), steps=steps, batch=batch)
        times = timed(report, label, seconds, {"nn.LSTM": lstm_step(steps=steps, batch=batch), "SAM": sam})
        figure = f"SAM over nn.LSTM, {label}"
        report.add(Line.ratio(figure, times["SAM"], times["nn.LSTM"], steps, bound=bounds[count - 1]))


def links(report: Report, seconds: float, count: int) -> None:
    """What temporal links add to SAM."""
    for batch, bounds in LINKS.items():
        label = f"B {batch}, T {STEPS}, {plural(count)}, with links"
        models = {name: training_step(model_of(name, MILLION), batch=batch) for name in ("sam", "sdnc")}
        times = timed(report, label, seconds, models)
        figure = f"SDNC over SAM, B {batch}, {plural(count)}"
        report.add(Line.ratio(figure, times["sdnc"], times["sam"], STEPS, bound=bounds[count - 1]))


def layer(report: Report, seconds: float, count: int) -> None:
    """The layer, whose input of width 128 gets a gradient, over SAM."""
    torch.manual_seed(0)
    module, x = sparsam.SparseMemory(128), torch.randn(STEPS, BATCH, 128, requires_grad=True)
    calls = {"SAM": training_step(model_of("sam", MILLION)), "layer": lambda: module(x)[0].sum().backward()}
    times = timed(report, f"layer, {plural(count)}", seconds, calls)
    report.add(
        Line.ratio(f"SparseMemory(128) over SAM, {plural(count)}", times["layer"], times["SAM"], STEPS, bound=LAYER)
    )


def filled(report: Report, seconds: float, sizes: tuple[int, ...]) -> None:
    """A step of one sequence over a memory that starts full of random words, with each way of searching."""
    scanned = []
    for size in sizes:
        words = torch.nn.functional.normalize(torch.randn(size, SIZES["word_size"]), dim=-1)
        steps = 4 if size == MILLION else 20
        times: dict[str, Timing] = {}
        for index in ("linear", "auto", "lsh", "kdtree"):
            model = model_of("sam", size, index=index)
            call = training_step(model, steps, 1, model.initial_state(1, initial_memory=words))
            times |= timed(report, f"{size:,} random words, {index}", seconds / 2, {index: call})
            us = times[index].median / steps * 1e6
            bound = SEARCH.get((index, size))
            report.add(Line(f"us a step, {size:,} random words, {index}, 1 thread", us, "us", bound=bound))
        for index in ("auto", "lsh", "kdtree"):
            figure = f"{index} over exact search, {size:,} random words"
            report.add(Line.ratio(figure, times[index], times["linear"], steps, bound=FASTER.get((index, size))))
        scanned.append(times["auto"].median / steps)
    figure = f"auto, {sizes[-1]:,} over {sizes[0]:,} random words"
    report.add(Line(figure, scanned[-1] / scanned[0], bound=SCAN))


def written(report: Report, rows: int) -> None:
    """A token's cost along the rows that a default layer writes."""
    for index, bound in GROWTH.items():
        spent = [timing.median for timing in along(sparsam.SparseMemory(128, index=index), rows)]
        report.raw.setdefault("us a token along the rows written", {})[index] = [s * 1e6 for s in spent]
        figure = f"a token's cost along {rows:,} written rows, {index}, last tenth over first"
        report.add(Line(figure, spent[-1] / spent[0], bound=bound))


def along(module: Any, rows: int, piece: int = 250) -> list[Timing]:
    """Seconds a token in each tenth of the tokens that write `rows` rows, `piece` tokens a call."""
    calls, state, found = rows // module.num_heads // piece, None, []
    x = torch.randn(piece, 1, module.input_size)
    with torch.no_grad():
        for _ in range(10):
            spent = []
            for _ in range(max(1, calls // 10)):
                times = take_turns({"": partial(module, x, state)}, 0.0, warmup=0)
                spent.append(times[""].median / piece)
                _, state = module(x, state)
            found.append(Timing.of(spent))
    return found


def plural(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
