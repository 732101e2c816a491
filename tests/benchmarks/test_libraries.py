"""Our indexes beside other libraries, at sizes that take no time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import libraries
from benchmarks.ann_words import drawn
from benchmarks.report import Report

pytest.importorskip("sparsam._native")


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr(libraries, "REPEATS", 1)
    monkeypatch.setattr(libraries, "STEPS", 4)


def brute(forgets: bool) -> libraries.Contender:
    """A library of our own making, which may take no changes."""
    held = np.zeros((500, 32), dtype=np.float32)

    def update(rows, new):
        if not forgets:
            held[rows] = new

    return libraries.Contender(
        "brute",
        "reads",
        (0,),
        lambda _: None,
        lambda words: held.__setitem__(slice(None), words),
        update,
        lambda queries, k: np.argsort(-(queries @ held.T), axis=1)[:, :k],
    )


def test_a_library_is_given_changes_and_asked():
    data = drawn(500)
    (point,) = libraries.beside(data, brute(forgets=False))
    assert point["recall"] == 1 and point["us"] == point["us updates"] + point["us queries"] > 0
    (point,) = libraries.beside(data, brute(forgets=True))
    assert point["recall"] < 1


def test_ours_find_what_exact_search_finds_as_far_as_they_do(tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "contenders", lambda words: [brute(forgets=False)])
    data = drawn(500)
    torch.manual_seed(0)
    points = libraries.measured(data, tmp_path / "kept.json", "random")
    found = {point["name"]: point["recall"] for point in points}
    assert found["exact"] == found["auto"] == found["brute, reads = 0"] == 1 and 0.1 < found["lsh"] <= 1
    monkeypatch.setattr(libraries, "ours", None)  # is not measured again
    assert libraries.measured(data, tmp_path / "kept.json", "random") == points


def test_each_of_ours_stands_beside_the_fastest_that_finds_as_much():
    def point(name, us, recall):
        return {"name": name, "us": us, "recall": recall, "others used, cores": 0.0}

    report = Report("libraries", watch=None)
    points = [point("auto", 10.0, 0.98), point("lsh", 1.0, 0.5), point("fast", 20.0, 0.6), point("good", 70.0, 0.98)]
    libraries.compare(report, "trained, 9 words", points)
    lines = {line.figure: line for line in report.lines}
    assert lines["auto: good over it, trained, 9 words"].reached == 7
    assert lines["auto: good over it, trained, 9 words"].met
    assert lines["lsh: fast over it, trained, 9 words"].reached == 20
    assert lines["lsh: recall@4, trained, 9 words"].reached == 0.5
