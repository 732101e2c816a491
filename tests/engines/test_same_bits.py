"""Same state, same input, same bits, with every index: for any number of threads, and for a state from a file."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch

import sparsam
from benchmarks.timing import threads
from sparsam.engines.native.core import native

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")

# Few checks: what is found is not what exact search finds, so that another order of search would show.
INDEXES = {
    "linear": sparsam.Linear(),
    "scan": sparsam.Scan(checks=8),
    "lsh": sparsam.LSH(checks=8),
    "lsh tables": sparsam.LSH(checks=8, few=1),
    "kdtree": sparsam.KDForest(checks=8),
    "auto": sparsam.Auto(sparsam.Scan(checks=8), exact_until=320),  # switches inside the sequence
    "auto kdtree": sparsam.Auto(sparsam.KDForest(checks=8), exact_until=320),
}
ROWS, STEPS, BATCH = 400, 24, 3


def model_of(name: str, index: str) -> Any:
    torch.manual_seed(1)
    sizes = {"memory_size": ROWS, "word_size": 6, "num_heads": 2, "k": 3, "index": INDEXES[index], "engine": "native"}
    if name == "layer":
        return sparsam.SparseMemory(5, 4, links=3, **sizes)
    return sparsam.build(name, input_size=5, output_size=4, hidden_size=7, **sizes)


def inputs(seed: int = 2) -> torch.Tensor:
    return torch.randn(STEPS, BATCH, 5, generator=torch.Generator().manual_seed(seed))


def words() -> torch.Tensor:
    """Most of a memory, the rest blank."""
    filled = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(3))
    filled[300:] = 0
    return filled


def results(model: Any) -> list[torch.Tensor]:
    """Outputs of two calls, the words, and every gradient."""
    model.zero_grad()
    initial = words().requires_grad_()
    y, state = model(inputs(), model.initial_state(BATCH, initial))
    again, state = model(inputs(4), state)
    (y.square().sum() + again.sum()).backward()
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    return [y, again, initial.grad.to_dense(), *grads, *state.memory_rows(0), state.read_rows]


@contextmanager
def core_on(count: int) -> Iterator[None]:
    """The native core on `count` threads, torch on one.

    The layer's two projections are plain `nn.Linear`, and how torch rounds a product may depend on its threads.
    """
    with threads(1), mock.patch.object(torch, "get_num_threads", lambda: count):
        yield


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", ["sam", "sdnc", "layer"])
def test_any_number_of_threads_gives_the_same_bits(name, index):
    model = model_of(name, index)
    with threads(1):
        expected = results(model)
    for count in (2, 3, 7):
        with core_on(count) if name == "layer" else threads(count):
            found = results(model)
        assert all(torch.equal(a, b) for a, b in zip(expected, found)), f"{count} threads"


def through_torch(state: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer)


WAYS = {"torch.save": through_torch, "pickle": lambda state: pickle.loads(pickle.dumps(state)), "copy": copy.deepcopy}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("name", ["sam", "sdnc", "layer"])
def test_a_state_from_a_file_goes_on_to_the_same_bits(name, index):
    """The ways take turns: every index and every model has each of them."""
    way = list(WAYS)[(["sam", "sdnc", "layer"].index(name) + list(INDEXES).index(index)) % 3]
    model = model_of(name, index)
    with torch.no_grad():
        _, state = model(inputs(), model.initial_state(BATCH, words()))
    loaded = WAYS[way](state.detach())

    def go_on(state: Any) -> list[torch.Tensor]:
        model.zero_grad()
        y, after = model(inputs(5), state)
        further, after = model(inputs(6), after)
        (y.square().sum() + further.sum()).backward()
        grads = [parameter.grad.clone() for parameter in model.parameters()]
        return [y, further, *grads, *after.memory_rows(1), after.read_rows]

    expected = go_on(state)
    for _ in range(2):  # a second time as well, and after other calls
        model(inputs(7))
        assert all(torch.equal(a, b) for a, b in zip(expected, go_on(loaded)))
    assert all(torch.equal(a, b) for a, b in zip(expected, go_on(state)))
