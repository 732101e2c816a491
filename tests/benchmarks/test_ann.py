"""The benchmark of the indexes at sizes that take no time."""

from __future__ import annotations

import numpy as np
import pytest

import sparsam
from benchmarks import ann, ann_long, ann_training, trained_words

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


def test_trained_words_are_what_the_model_wrote_and_asks():
    data = trained_words.written(300)
    assert 800 <= len(data.words) <= 1200 and data.queries.shape == (80, 4, 32) and data.truth.shape == (80, 4, 4)
    scores = data.queries[7, 2] @ data.words.T
    assert sorted(data.truth[7, 2].tolist()) == sorted(np.argsort(-scores)[:4].tolist())
    row = ann.on_written(data, sparsam.Scan())
    assert min(row["recall of K by head"]) >= 0.99  # measured: 1.0 for every head
    assert ann.on_written(data, sparsam.Scan(checks=1))["recall of K"] <= 0.25


def test_bits_with_each_index_are_those_of_exact_search():
    wrong = ann_long.bits_wrong(300)
    assert set(wrong) == {"linear", "scan", "kdtree", "lsh", "auto"}
    assert len(set(wrong.values())) == 1 and wrong["linear"] <= 20  # of 512 by chance


@pytest.mark.parametrize("name", ["scan", "lsh", "kdtree"])
def test_gradients_are_checked_before_anything_is_timed(name):
    assert ann.require_replayed(name) < 1e-9


def test_a_training_run_reports_error_and_recall(monkeypatch, tmp_path):
    monkeypatch.setattr(ann_training, "EVERY", 2)
    monkeypatch.setattr(ann_training, "EARLY", 1)
    error_of = ann_training.error_of
    monkeypatch.setattr(ann_training, "error_of", lambda model, task, _, seed: error_of(model, task, 4, seed, 2))
    runs = [ann_training.train("copy", index, 0, 4) for index in ("linear", "scan")]
    for run in runs:
        assert len(run["losses"]) == len(run["errors"]) == 2 and run["minibatches"] == 4
        assert ann_training.table_row(run).count("|") == ann_training.HEADER.splitlines()[1].count("|")
    exact, approximate = runs
    assert exact["recall early"] == exact["recall late"] == (1, 1)
    assert exact["final error"] == exact["final error with exact search"]
    assert 0 < approximate["recall early"][0] < 1
    ann_training.plot(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
