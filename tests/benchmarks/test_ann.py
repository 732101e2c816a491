"""The benchmark of the indexes at sizes that take no time."""

from __future__ import annotations

import numpy as np
import pytest

import sparsam
from benchmarks import ann, ann_training

pytest.importorskip("sparsam._native")


def test_an_index_is_measured_against_brute_force():
    words = ann.random_words(3000)
    queries = ann.noisy_queries(words, 20)
    truth = ann.nearest(words, queries)
    assert np.array_equal(truth[:, 0], (queries @ words.T).argmax(1))
    found = ann.measure(words, sparsam.LSH(checks=3000), quick=True)
    assert found["recall"] == found["recall of K"] == 1
    narrow = ann.measure(words, sparsam.LSH(checks=1), quick=True)
    assert narrow["recall of K"] <= 0.25 and narrow["bytes per word"] > 0


@pytest.mark.parametrize("name", ["lsh", "kdtree"])
def test_gradients_are_checked_before_anything_is_timed(name):
    assert ann.require_replayed(name) < 1e-9


def test_a_training_run_reports_error_and_recall(monkeypatch, tmp_path):
    monkeypatch.setattr(ann_training, "EVERY", 2)
    monkeypatch.setattr(ann_training, "EARLY", 1)
    error_of = ann_training.error_of
    monkeypatch.setattr(ann_training, "error_of", lambda model, task, _, seed: error_of(model, task, 4, seed, 2))
    runs = [ann_training.train("copy", index, 0, 4) for index in ("linear", "lsh")]
    for run in runs:
        assert len(run["losses"]) == len(run["errors"]) == 2 and run["minibatches"] == 4
        assert ann_training.table_row(run).count("|") == ann_training.HEADER.splitlines()[1].count("|")
    exact, approximate = runs
    assert exact["recall early"] == exact["recall late"] == (1, 1)
    assert exact["final error"] == exact["final error with exact search"]
    assert 0 < approximate["recall early"][0] < 1
    ann_training.plot(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
