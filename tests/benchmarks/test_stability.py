"""The record of long runs, in small."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import stability
from sparsam.lab.training.config import CurriculumConfig


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(stability, "WINDOW", 2)
    monkeypatch.setattr(stability, "BATCH", 2)
    for name in ("copy", "climb"):
        monkeypatch.setitem(stability.TASKS, name, ("copy", {"bits": 2, "min_size": 1, "max_size": 3}))
    monkeypatch.setitem(stability.CLIMBS, "climb", CurriculumConfig(start=2, threshold=9.0, patience=1, max_level=8))


@pytest.mark.parametrize("model", stability.MODELS)
@pytest.mark.parametrize("task", ["copy", "sort", "climb"])
def test_a_run_has_a_line_for_each_window(model, task, small):
    """With a limit and without by turns: every model but the layer has both, and so has every task."""
    turn = list(stability.MODELS).index(model) + ["copy", "sort", "climb"].index(task)
    clip = 10.0 if turn % 2 and model != "layer" else None
    run = stability.train(model, task, clip, 0, 4, 60.0, 20, hidden=8)
    assert [window["minibatch"] for window in run["windows"]] == [2, 4] and run["ended"] == "minibatches"
    assert all(0 < window["wrong"] < 1 and window["median"] > 0 for window in run["windows"])
    assert [window.get("level") for window in run["windows"]] == ([2, 8] if task == "climb" else [None, None])


@pytest.mark.parametrize("model", [name for name in stability.MODELS if name != "layer"])
def test_the_limit_is_the_models_own(model):
    assert stability.built(model, 2, 2, 10.0, 8).backward_clip == 10.0


def test_the_layer_has_none():
    with pytest.raises(ValueError, match="clip: expected none for the layer"):
        stability.built("layer", 2, 2, 10.0, 8)


def test_what_was_lost_is_counted_after_it_was_solved():
    wrong = [0.5, 0.06, 0.01, 0.04, 0.06, math.nan, 0.0]
    windows = [{"minibatch": 500 * (at + 1), "wrong": value, "level": 2 * at} for at, value in enumerate(wrong)]
    assert stability.kept(windows) == {"solved_at": 1500, "windows_after": 4, "lost": 2}
    assert stability.kept(windows, top=12) == {"solved_at": 3500, "windows_after": 0, "lost": 0}
    assert stability.kept(windows[:2]) == {"solved_at": None, "windows_after": 0, "lost": 0}


def test_a_whole_run_is_not_run_again_and_a_shorter_one_is(small, monkeypatch):
    monkeypatch.setattr(stability, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count))
    asked = {"model": "lstm", "task": "copy", "clip": None, "seed": 0}
    runs: list[dict[str, Any]] = []
    done: list[int] = []
    for minibatches in (2, 2, 4):
        stability.measure(
            [asked], runs, minibatches, 60.0, 20, 1, lambda run: done.append(run["windows"][-1]["minibatch"])
        )
    assert len(runs) == 1 and done == [2, 4]


def test_norms_that_are_not_finite_are_counted_apart():
    assert stability.of_norms([1.0, 3.0, math.inf, math.nan, 2.0]) == pytest.approx(
        {"not_finite": 2, "median": 2.0, "p99": 2.98, "largest": 3.0}
    )


def test_the_page_has_the_numbers_of_the_records():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "explanation" / "gradients.md").read_text()
    assert stability.table(json.loads((docs / "bench" / "stability.json").read_text())["runs"]) in page
    cuts = json.loads((docs / "bench" / "gradient_paths.json").read_text())["cuts"]
    for name, cut in {"nothing": "nothing", "r": "read", "the query": "query", "c": "cell"}.items():
        assert f"| {name} | {cuts[cut]['largest']:.2g} |" in page
