"""The lines that `sparsam bench speed` prints over batch sizes, lengths and threads, at sizes that take no time."""

from __future__ import annotations

import pytest
import torch

from benchmarks import ratios
from benchmarks.report import Report
from benchmarks.setting import model_of
from sparsam import engines

pytestmark = pytest.mark.skipif(
    engines.why_not("native", model_of("sam", 64)) is not None, reason="the native engine is not built here"
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratios, "BATCHES", (2, 3))
    monkeypatch.setattr(ratios, "LENGTHS", {4: 1.9, 6: 3.0})
    monkeypatch.setattr(ratios, "MILLION", 64)


def test_every_figure_is_printed_with_its_target(small: None):
    report = Report("ratios")
    before = torch.get_num_threads()
    ratios.add(report, 0.0, most=1, dense=False)
    assert torch.get_num_threads() == before
    figures = {line.figure: line.bound for line in report.lines}
    assert figures == {
        "SAM over nn.LSTM, B 2, T 100, 1 thread": 1.6,
        "SAM over nn.LSTM, B 3, T 100, 1 thread": 1.6,
        "SAM over nn.LSTM, B 8, T 4, 1 thread": 1.9,
        "SAM over nn.LSTM, B 8, T 6, 1 thread": 3.0,
        "SDNC over SAM, B 8, 1 thread": 1.25,
        "SDNC over SAM, B 2, 1 thread": 1.25,
        "SDNC over SAM, B 3, 1 thread": 1.25,
    }
    assert all(line.reached > 0 for line in report.lines)


def test_many_threads_are_held_against_one(small: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ratios, "MANY", 2)
    report = Report("ratios")
    ratios.many_threads(report, 0.0)
    assert [line.bound for line in report.lines] == [10, None, None]
