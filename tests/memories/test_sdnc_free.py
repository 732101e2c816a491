"""SDNC with `allocation="free"` against its definition in plain loops: usage, free gates, and their gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import sparsam
from sparsam import engines
from sparsam.memories import sdnc as module
from tests import oracle

ENGINES = ["reference"] + [
    name
    for name in engines.ENGINES
    if name != "reference"
    and engines.why_not(name, sparsam.SDNC(2, 1, 3, memory_size=5, word_size=2, num_heads=1, k=1, allocation="free"))
    is None
]


def free_model(make, **changes):
    """A model whose gates swing widely."""
    model = make("sdnc", allocation="free", **changes)
    with torch.no_grad():
        model.interface.weight.mul_(3)
    return model


def usage_of(state, b: int) -> torch.Tensor:
    if state.memory.__class__.__name__ == "DenseMemory":
        return state.memory.usage[b]
    rows, values = state.memory.usage_rows(b)
    return torch.zeros(state.memory.rows, dtype=torch.float64).scatter(0, rows, values)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [3, 5, 11])
@pytest.mark.parametrize("blank", [True, False])
def test_equals_its_definition(make, engine, rows, blank):
    model = free_model(make, engine=engine, memory_size=rows)
    x = torch.randn(20, 2, 3, dtype=torch.float64)
    memory = None if blank else torch.randn(2, rows, 4, dtype=torch.float64)
    y, state = model(x, model.initial_state(2, initial_memory=memory))
    for b in range(2):
        expected, plain = oracle.run(model, x[:, b], None if memory is None else memory[b])
        torch.testing.assert_close(y[:, b], expected, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(usage_of(state, b), plain.usage, rtol=1e-8, atol=1e-10)
        if rows < 11:
            assert plain.usage.min() > 0  # every row was used, so rows were used again


def full(model, row: int, usage: float = 1.0):
    """A state in which every row is full to `usage` and `row` was read last, with weight 1."""
    state = model.initial_state(1)
    size = model.memory_size
    read = {
        "read_rows": torch.full_like(state.read_rows, row),
        "read_weights": torch.ones_like(state.read_weights),
    }
    if hasattr(state.memory, "usage"):
        memory = dataclasses.replace(state.memory, usage=torch.full((1, size), usage, dtype=torch.float64))
    else:
        memory = state.memory.clone()
        saved = memory.__getstate__()
        rows, words = torch.arange(size), torch.zeros(size, model.word_size, dtype=torch.float64)
        full_rows = torch.full((size,), usage, dtype=torch.float64)
        ids, columns, weights = memory.link_rows(0)
        links = {"link_ids": ids, "link_columns": columns, "link_weights": weights}
        recency = torch.zeros(0, dtype=torch.int64)
        part = {"rows": rows, "words": words, "recency": recency, **links, "usage_rows": rows, "usage": full_rows}
        saved["parts"] = [part]
        memory.__setstate__(saved)
    return state.with_fields(memory=memory, **read)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("free_bias", "expected", "room"), [(40.0, 3, 1.0), (-40.0, 0, 0.0)])
def test_a_full_memory_writes_where_it_freed(make, engine, free_bias, expected, room):
    """The row read last is freed and written anew; with nothing freed all rows tie, and a full row takes nothing."""
    model = make("sdnc", allocation="free", engine=engine, num_heads=1, k=1, memory_size=6)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias[9], model.interface.bias[10] = 40.0, -40.0  # alpha = 1, gamma = 0
        model.interface.bias[-1] = free_bias
    seen = model.trace(torch.zeros(1, 1, 3, dtype=torch.float64), full(model, 3)).writes(0)
    weights = torch.zeros(6, dtype=torch.float64).index_add(0, seen.row, seen.weight.double())
    torch.testing.assert_close(weights[expected], torch.tensor(room, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(), torch.tensor(room, dtype=torch.float64))


def test_gradcheck_of_a_step(make):
    """With the usage that a step starts from given, everything else in it is differentiated."""
    model = free_model(make, memory_size=5, link_gradients=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    x = torch.randn(9, 1, 3, dtype=torch.float64)
    _, state = model(x[:8], model.initial_state(1, initial_memory=torch.randn(5, 4, dtype=torch.float64)))
    assert (state.memory.usage > 0).all()
    inputs = [value.clone().requires_grad_() for value in (x[8:], state.hidden, state.read_weights)]

    def step(x, hidden, read_weights):
        return model(x, state.with_fields(hidden=hidden, read_weights=read_weights))[0]

    assert torch.autograd.gradcheck(step, inputs)


def test_gradcheck_of_a_sequence_with_its_usages_given(make, monkeypatch):
    model = free_model(make, memory_size=4, link_gradients=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    x = torch.randn(6, 1, 3, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(4, 4, dtype=torch.float64)

    def run(x):
        return model(x, model.initial_state(1, initial_memory=memory))[0]

    ours = torch.autograd.grad(run(x).sum(), x)[0]
    given, filled = [], module.filled
    monkeypatch.setattr(module, "filled", lambda *args: given.append(filled(*args)) or given[-1])
    run(x)
    queue: list = []
    monkeypatch.setattr(module, "filled", lambda *_: queue.pop(0))

    def with_given_usages(x):
        queue.extend(given)
        return run(x)

    assert torch.autograd.gradcheck(with_given_usages, (x,))
    torch.testing.assert_close(ours, torch.autograd.grad(with_given_usages(x).sum(), x)[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_free_gates_learn(make, engine):
    model = free_model(make, engine=engine, memory_size=4)
    y, _ = model(torch.randn(12, 2, 3, dtype=torch.float64))
    y.square().sum().backward()
    assert (model.interface.weight.grad[-2:].abs().sum(dim=1) > 1e-8).all()


def test_interface_has_a_free_gate_for_each_head(make):
    ring, free = make("sdnc"), make("sdnc", allocation="free")
    assert free.interface.out_features - ring.interface.out_features == free.num_heads
    assert "allocation='free'" in repr(free)


@pytest.mark.parametrize("engine", ENGINES)
def test_states_of_the_other_allocation_are_refused(make, engine):
    x = torch.randn(2, 1, 3, dtype=torch.float64)
    ring, free = (make("sdnc", engine=engine, allocation=name) for name in ("ring", "free"))
    with pytest.raises(ValueError, match="allocation='free'"):
        free(x, ring.initial_state(1))
    with pytest.raises(ValueError, match="allocation='ring'"):
        ring(x, free.initial_state(1))


def test_wrong_allocation_is_named(make):
    with pytest.raises(ValueError, match="allocation"):
        make("sdnc", allocation="heap")


def test_state_methods_take_usage_along(make):
    model = free_model(make, memory_size=5)
    _, state = model(torch.randn(4, 2, 3, dtype=torch.float64))
    usage = state.memory.usage
    assert torch.equal(state.clone().memory.usage, usage) and torch.equal(state.detach().memory.usage, usage)
    assert state.to(torch.float32).memory.usage.dtype == torch.float32
    reset = state.reset(torch.tensor([True, False])).memory.usage
    assert (reset[0] == 0).all() and torch.equal(reset[1], usage[1])
