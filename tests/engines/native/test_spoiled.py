"""A bad number spoils its own batch element, with every index as with exact search, and nothing else."""

from __future__ import annotations

import copy

import pytest
import torch

import sparsam

pytest.importorskip("sparsam._native")

INDEXES = {
    "linear": sparsam.Linear(),
    "scan": sparsam.Scan(checks=1000),
    "auto": sparsam.Auto(sparsam.Scan(checks=1000), exact_until=12),
    "lsh": sparsam.LSH(checks=1000),
    "tables": sparsam.LSH(checks=1000, few=16),
    "kdtree": sparsam.KDForest(checks=1000),
}
indexes = pytest.mark.parametrize("index", INDEXES)
SIZES = {"memory_size": 60, "word_size": 8, "num_heads": 2, "k": 3, "engine": "native"}
MODELS = {
    "sam": lambda: sparsam.SAM(3, 2, hidden_size=12, **SIZES),
    "sdnc": lambda: sparsam.SDNC(3, 2, hidden_size=12, **SIZES),
    "layer": lambda: sparsam.SparseMemory(3, 2, **SIZES),
}


def make(kind, index, **settings):
    torch.manual_seed(0)
    model = MODELS[kind]().double()
    model.index = INDEXES[index]
    for name, value in settings.items():
        setattr(model, name, value)
    return model


@indexes
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("loaded", [False, True], ids=["blank", "loaded"])
def test_a_bad_element_leaves_the_others_alone(kind, index, loaded):
    """NaN and both infinities take turns: every index and every model has each of them."""
    turn = list(MODELS).index(kind) + list(INDEXES).index(index) + loaded
    bad = (float("nan"), float("inf"), -float("inf"))[turn % 3]
    model = make(kind, index)
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    start = model.initial_state(3, torch.randn(60, 8, dtype=torch.float64) if loaded else None)
    _, state = model(x[:8], start)
    state = state.detach()
    results = []
    for step, number in ((None, 0.0), (3, bad)):
        given = x[8:].clone()
        if step is not None:
            given[step, 1] = number
        given.requires_grad_()
        y, after = model(given, state)
        gradient = torch.autograd.grad(y[:, [0, 2]].square().sum(), given)[0]
        results.append((y[:, [0, 2]], gradient[:, [0, 2]], after.read[[0, 2]]))
        spoiled = y[:, 1]
        again = model(x[8:], after.detach())[0]  # a later call goes on
        results[-1] += (again[:, [0, 2]],)
    for clean, beside in zip(*results):
        assert torch.equal(clean, beside)
    assert spoiled[:3].isfinite().all() and not spoiled[3].isfinite().all()
    linear = make(kind, "linear")
    expected = linear(given.detach(), model_state(linear, x[:8], start))[0][:, 1]
    assert torch.equal(spoiled.isnan(), expected.isnan())


def model_state(model, x, start):
    return model(x, model.initial_state(3) if start.memory.origins[0] is None else start)[1].detach()


@indexes
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("large", [1e120, 1e160, 1e-312])
def test_words_of_any_size_are_found_as_exact_search_finds_them(index, similarity, large):
    """Neither a hash nor a split can place a word of infinite length; it is scored each time.

    Blank memories and loaded ones take turns.
    """
    loaded = (list(INDEXES).index(index) + ["cosine", "dot", "euclidean"].index(similarity)) % 2
    torch.manual_seed(0)
    model = sparsam.SparseMemory(3, 2, similarity=similarity, **SIZES).double()
    words = torch.randn(60, 8, dtype=torch.float64)
    words[::7] *= large
    x = torch.randn(12, 2, 3, dtype=torch.float64)
    x[4:6, 1] *= large
    start = words if loaded else None
    expected, last = model(x, model.initial_state(2, start))
    model = copy.deepcopy(model)
    model.index = INDEXES[index]
    y, after = model(x, model.initial_state(2, start))
    assert torch.equal(after.read_rows, last.read_rows)
    torch.testing.assert_close(y, expected, equal_nan=True)
