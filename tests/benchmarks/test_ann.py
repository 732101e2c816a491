"""The benchmark of the indexes at sizes that take no time."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import sparsam
from benchmarks import (
    ann,
    ann_bits,
    ann_curves,
    ann_long,
    ann_report,
    ann_training,
    ann_words,
    trained_words,
)

pytest.importorskip("sparsam._native")


def test_a_curve_is_measured_against_brute_force():
    data = ann_words.drawn(3000)
    scores = data.queries[5, 1] @ data.words.T
    assert sorted(data.truth[5, 1].tolist()) == sorted(np.argsort(-scores)[:4].tolist())
    found = ann_curves.on_written(data, sparsam.LSH(checks=3000))
    assert found["recall of K"] == 1 and found["us insert + remove"] > 0
    narrow = ann_curves.on_written(data, sparsam.LSH(checks=1))
    assert narrow["recall of K"] <= 0.25 and narrow["bytes per word"] > 0


def test_clustered_words_crowd():
    scores = ann_words.drawn(400, clusters=4).words
    within = (scores[0::4] @ scores[0::4].T).mean()
    assert within > 0.85 > 0.5 > abs((scores[0::4] @ scores[1::4].T).mean())


def test_parts_are_kept_and_not_run_again(tmp_path, monkeypatch, capsys):
    calls = []

    def part(out, quick):
        calls.append(quick)
        yield {"rows": [{"words": 1, "us": {"exact": 2.0, "scan": 1.0, "auto": 1.0}}]}
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(ann, "PARTS", {"steps: written": part})
    with pytest.raises(KeyboardInterrupt):
        ann.run(tmp_path)
    assert not ann.parts_in(tmp_path, False)["steps: written"]["whole"]
    for _ in range(2):
        report = ann.run(tmp_path)
    assert calls == [False, False] and ann.parts_in(tmp_path, False)["steps: written"]["whole"]
    assert report.lines[0].reached == 1 and (tmp_path / "ann.json").exists()
    assert "done before" in capsys.readouterr().out


def test_the_report_takes_the_parts_that_are_there(tmp_path):
    point = {
        "curve": "scan", "default": True, "words": 10, "recall of K by head": [1.0, 0.9], "recall of K": 0.95,
        "us per step, all heads": 3.0, "us insert + remove": 1.0, "bytes per word": 40.0,
    }  # fmt: skip
    rows = [{"words": n, "us": {"exact": float(n), "scan": 5.0, "auto": 5.0, "nn.LSTM": 1.0}} for n in (1, 10)]
    found = {
        "words: 50,000 pairs": {"set": "50,000 pairs", "points": [point]},
        "bits: 4,096 pairs": {"bits wrong": {"linear": [3, 4], "auto": [3, 6]}},
        "steps: pre-loaded": {"rows": rows},
    }
    report = ann_report.report_of({name: {"found": each} for name, each in found.items()}, tmp_path, False)
    lines = {line.figure: line for line in report.lines}
    assert lines["scan: recall@K, 50,000 pairs (10 words)"].met
    assert lines["auto: bits wrong of 64 cues beyond exact search's, worst seed"].reached == 2
    assert lines["pre-loaded words from which on scan beats exact search"].reached == 10
    assert (tmp_path / "ann.png").stat().st_size > 1000


def test_questions_are_asked_with_every_index():
    *_, found = ann_bits.sequence(60, "linear", cues=8, others=("scan", "lsh"))
    assert found["bits wrong"]["linear"] == found["bits wrong"]["scan"] == found["bits wrong"]["lsh"] <= 2
    assert found["index used"] == {"linear": "linear", "scan": "scan", "lsh": "lsh"}


def test_trained_words_are_what_the_model_wrote_and_asks():
    data = trained_words.written(300)
    assert 800 <= len(data.words) <= 1200 and data.queries.shape == (80, 4, 32) and data.truth.shape == (80, 4, 4)
    scores = data.queries[7, 2] @ data.words.T
    assert sorted(data.truth[7, 2].tolist()) == sorted(np.argsort(-scores)[:4].tolist())
    row = ann_curves.on_written(data, sparsam.Scan())
    assert min(row["recall of K by head"]) >= 0.99  # measured: 1.0 for every head
    assert ann_curves.on_written(data, sparsam.Scan(checks=1))["recall of K"] <= 0.25


@pytest.mark.parametrize(
    ("index", "least"),
    [
        (sparsam.Scan(checks=16), 0.98),  # measured: 0.998
        (sparsam.LSH(checks=256), 0.93),  # measured: 0.966
        (sparsam.LSH(few=100, probes=400, checks=256), 0.8),  # measured: 0.852
        (sparsam.KDForest(checks=256), 0.87),  # measured: 0.902
    ],
)
def test_recall_on_trained_words(index, least):
    """About 1,500 words, of which each index scores a sixth or fewer."""
    assert ann_curves.on_written(trained(500), index)["recall of K"] >= least


@functools.cache
def trained(pairs: int) -> trained_words.Written:
    return trained_words.written(pairs)


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
