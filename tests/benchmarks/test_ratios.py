"""`sparsam bench ratios` at sizes that take no time, and what a reading on a busy machine counts for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import ratios, report, timing
from benchmarks.report import Line, Report
from benchmarks.setting import model_of
from benchmarks.timing import Timing
from sparsam import engines

native = pytest.mark.skipif(
    engines.why_not("native", model_of("sam", 64)) is not None, reason="the native engine is not built here"
)


@native
def test_every_figure_is_printed_with_its_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(ratios, "OVER_LSTM", {(2, 3): (1.6, 1.5)})
    monkeypatch.setattr(ratios, "LINKS", {2: (1.25, 1.15)})
    monkeypatch.setattr(ratios, "FILLED", (300, 400))
    monkeypatch.setattr(ratios, "MILLION", 400)
    monkeypatch.setattr(ratios, "WRITTEN", 20_000)
    monkeypatch.setattr(ratios, "take_turns", lambda calls, seconds, warmup=0: timing.take_turns(calls, 0.0, 0))
    monkeypatch.setattr(ratios, "cores", lambda: 1)
    before = torch.get_num_threads()
    found = ratios.run(tmp_path, quick=True)
    assert torch.get_num_threads() == before
    figures = {line.figure: line.bound for line in found.lines}
    assert figures["SAM over nn.LSTM, B 2, T 3, 1 thread"] == 1.6
    assert figures["SDNC over SAM, B 2, 1 thread"] == 1.25
    assert figures["SparseMemory(128) over SAM, 1 thread"] == 0.7
    assert figures["a token's cost along 2,000 written rows, auto, last tenth over first"] == 1.5
    assert figures["auto, 400 over 300 random words"] == 8
    assert all(line.reached > 0 for line in found.lines)
    assert (tmp_path / "ratios.json").exists()


class Busy:
    def read(self) -> float:
        return 0.8


def test_a_busy_machine_meets_and_misses_nothing():
    found = Report("x", watch=Busy())  # type: ignore[arg-type]
    found.add(Line("too good", 0.49, bound=1.4))
    (line,) = found.lines
    assert line.met is None and "0.8 cores" in line.row()[3]


def test_repeats_that_spread_meet_nothing():
    steady, wild = Timing.of([1.0, 1.01, 1.02, 1.0]), Timing.of([1.0, 2.0, 3.0, 4.0])
    assert Line.ratio("a", steady, steady, bound=1.1).met
    line = Line.ratio("b", wild, steady, bound=9.0)
    assert line.met is None and "spread" in line.row()[3]
    assert line.times == "2.5e+06 / 1.005e+06 us"


def test_the_watch_sees_others_and_not_itself(monkeypatch: pytest.MonkeyPatch):
    ticks, own = iter([(0.0, 10.0, 5.0), (2.0, 12.0, 6.5), (4.0, 13.0, 7.5)]), timing.Watch._now
    assert own() is None or len(own()) == 3
    monkeypatch.setattr(timing.Watch, "_now", staticmethod(lambda: next(ticks)))
    watch = timing.Watch()
    assert watch.read() == 0.25 and watch.read() == 0.0


def test_one_thread_is_read_in_processor_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing.time, "process_time", lambda: -1.0)
    with timing.threads(1):
        assert timing.clock() == -1.0
    with timing.threads(2):
        assert timing.clock() >= 0
    assert report.QUIET < 0.5
