"""The record of long runs, in small."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks import stability


@pytest.mark.parametrize("clip", [None, 10.0])
@pytest.mark.parametrize("task", ["copy", "sort"])
def test_a_run_has_a_line_for_each_window(task, clip, monkeypatch):
    monkeypatch.setattr(stability, "WINDOW", 2)
    monkeypatch.setitem(stability.TASKS, "copy", ("copy", {"bits": 2, "min_size": 1, "max_size": 3}))
    run = stability.train("sam", task, clip, 0, 4, 60.0, hidden=8)
    assert [window["minibatch"] for window in run["windows"]] == [2, 4]
    assert all(0.2 < window["wrong"] < 0.8 and window["median"] > 0 for window in run["windows"])


def test_what_was_lost_is_counted_after_it_was_solved():
    found = stability.kept([0.5, 0.06, 0.01, 0.04, 0.06, math.nan, 0.0])
    assert found == {"solved_at": 3 * stability.WINDOW, "windows_after": 4, "lost": 2}
    assert stability.kept([0.5, 0.4]) == {"solved_at": None, "windows_after": 0, "lost": 0}


def test_norms_that_are_not_finite_are_counted_apart():
    assert stability.of_norms([1.0, 3.0, math.inf, math.nan, 2.0]) == pytest.approx(
        {"not_finite": 2, "median": 2.0, "p99": 2.98, "largest": 3.0}
    )


def test_the_page_has_the_numbers_of_the_record():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "explanation" / "gradients.md").read_text()
    for run in json.loads((docs / "bench" / "stability.json").read_text())["runs"]:
        last = run["windows"][-1]
        p99 = f"{last['p99']:,.0f}" if run["clip"] is None else f"{last['p99']:.1f}"
        assert last["minibatch"] == 4000
        assert f"| {last['median']:.2f} | {p99} | {last['wrong']:.1%} |" in page
