"""Index settings: names, checked arguments, who runs them."""

from __future__ import annotations

import warnings

import pytest
import torch

import sparsam
from sparsam import indexes
from sparsam.models import contract

SIZES = {"input_size": 2, "output_size": 2, "memory_size": 8, "word_size": 4, "hidden_size": 4}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("linear", sparsam.Linear()),
        ("scan", sparsam.Scan()),
        ("kdtree", sparsam.KDForest()),
        ("lsh", sparsam.LSH()),
        ("auto", sparsam.Auto()),
    ],
)
def test_names(name, expected):
    assert sparsam.SAM(**SIZES, index=name).index == expected


def test_an_object_is_taken_as_it_is():
    index = sparsam.LSH(tables=2, probes=7, seed=3)
    assert sparsam.SAM(**SIZES, index=index).index is index


def test_a_near_miss_is_suggested():
    with pytest.raises(ValueError, match="did you mean 'kdtree'"):
        sparsam.SAM(**SIZES, index="kd-tree")


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: sparsam.Scan(checks=0), ValueError, "checks"),
        (lambda: sparsam.Scan(seed=2**63), ValueError, "seed"),
        (lambda: sparsam.KDForest(trees=0), ValueError, "trees"),
        (lambda: sparsam.KDForest(trees=33), ValueError, r"trees: expected an int in 1\.\.32, got 33"),
        (lambda: sparsam.KDForest(checks=1.5), TypeError, "checks"),
        (lambda: sparsam.KDForest(leaf=8), ValueError, "leaf"),
        (lambda: sparsam.KDForest(seed=-1), ValueError, "seed"),
        (lambda: sparsam.LSH(tables=True), TypeError, "tables"),
        (lambda: sparsam.LSH(bits=25), ValueError, "bits"),
        (lambda: sparsam.LSH(probes=0), ValueError, "probes"),
        (lambda: sparsam.LSH(seed="0"), TypeError, "seed"),
        (lambda: sparsam.Auto(index=sparsam.Linear()), TypeError, "index"),
        (lambda: sparsam.Auto(exact_until=0), ValueError, "exact_until"),
        (lambda: indexes.resolve(4), TypeError, "index"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("index", ["scan", "kdtree", "lsh", "auto"])
def test_the_reference_has_exact_search_only(index):
    model = sparsam.SAM(**SIZES, index=index, engine="reference")
    with pytest.raises(RuntimeError, match="exact search"):
        model(torch.zeros(1, 1, 2))


def test_no_engine_is_an_error_with_all_reasons():
    model = sparsam.SAM(**SIZES, index="lsh", masked=True)
    with pytest.raises(RuntimeError, match=r"no engine.*native: .*masked=True.*reference: .*exact search"):
        model(torch.zeros(1, 1, 2))


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("linear", "linear"),
        ("scan", "scan"),
        (sparsam.LSH(checks=8), "lsh"),
        ("auto", "linear up to 3,000 words (200,000 to 600,000 where codes are searched), then scan"),
        (sparsam.Auto(sparsam.LSH()), "linear up to 3,000 words (45,000 where codes are searched), then lsh"),
        (sparsam.Auto(sparsam.KDForest(), exact_until=10), "linear up to 10 words, then kdtree"),
    ],
)
def test_a_model_tells_what_finds_its_words(index, told):
    assert sparsam.SAM(3, 2, memory_size=20, index=index).index_used == told
    assert sparsam.SDNC(3, 2, memory_size=20, index=index).index_used == told
    assert sparsam.SparseMemory(3, memory_size=20, index=index).index_used == told


@pytest.mark.parametrize(
    ("index", "words", "slow"),
    [
        (sparsam.KDForest(), 10_000, True),
        (sparsam.KDForest(), 20_000, False),
        (sparsam.KDForest(checks=20_480), 1_000_000, True),
        (sparsam.LSH(), 2_000, True),
        (sparsam.LSH(), 4_000, False),
        (sparsam.Scan(), 3_000, True),
        (sparsam.Auto(sparsam.KDForest()), 100, False),
        (sparsam.Linear(), 100, False),
    ],
)
def test_an_index_that_is_slower_than_exact_search_says_so_once(index, words, slow, monkeypatch):
    pytest.importorskip("sparsam._native")
    monkeypatch.setattr(contract, "_warned", set())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            sparsam.SAM(2, 2, hidden_size=4, memory_size=words, word_size=4, index=index)(torch.zeros(1, 1, 2))
    assert ["slower than exact search" in str(each.message) for each in said] == [True] * slow


def test_a_state_tells_what_found_its_words():
    model = sparsam.SAM(3, 2, memory_size=200, index=sparsam.Auto(exact_until=10), engine="native")
    assert model(torch.randn(1, 2, 3))[1].index_used == ("linear", "linear")
    assert model(torch.randn(30, 2, 3))[1].index_used == ("scan", "scan")
    assert sparsam.LSTM(3, 2).index_used == sparsam.NTM(3, 2, memory_size=9).index_used == "none"
