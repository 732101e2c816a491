"""SDNC against its definition in plain loops, and what is and is not differentiated in its links."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam import engines
from sparsam.memories import sdnc as module
from tests import oracle


def strong(make, **changes):
    """A model whose gates swing widely, so that links matter."""
    model = make("sdnc", **changes)
    with torch.no_grad():
        model.interface.weight.mul_(3)
    return model


def engines_for_sdnc():
    model = sparsam.SDNC(2, 1, 3, memory_size=5, word_size=2, num_heads=1, k=1).double()
    return [name for name in engines.ENGINES if engines.why_not(name, model) is None]


@pytest.mark.parametrize("engine", engines_for_sdnc())
@pytest.mark.parametrize("k_links", [1, 2, 8])
@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
@pytest.mark.parametrize("blank", [True, False])
def test_equals_its_definition(make, engine, k_links, similarity, blank):
    model = strong(make, engine=engine, k_links=k_links, similarity=similarity, memory_size=11)
    x = torch.randn(12, 2, 3, dtype=torch.float64)
    memory = None if blank else torch.randn(2, 11, 4, dtype=torch.float64)
    y, state = model(x, model.initial_state(2, initial_memory=memory))
    for b in range(2):
        expected, plain = oracle.run(model, x[:, b], None if memory is None else memory[b])
        torch.testing.assert_close(y[:, b], expected, rtol=1e-8, atol=1e-10)
        assert state.read_rows[b].tolist() == plain.rows


def test_links_equal_the_definition(make):
    model = strong(make, k_links=2, memory_size=11)
    x, state = torch.randn(9, 1, 3, dtype=torch.float64), model.initial_state(1)
    for t in range(9):
        _, state = model(x[t : t + 1], state)
        _, plain = oracle.run(model, x[: t + 1, 0])
        ours = (state.links.predecessors, state.links.successors, state.links.precedence)
        for mine, theirs in zip(ours, (plain.before, plain.after, plain.precedence)):
            torch.testing.assert_close(mine[0].detach(), theirs.detach(), rtol=1e-9, atol=1e-12)


def run(model, x, memory):
    return model(x, model.initial_state(x.shape[1], initial_memory=memory))[0]


def test_links_are_constants_for_the_gradient(make, monkeypatch):
    """The gradient equals that of a model in which the links of each step are given numbers."""
    model = strong(make, memory_size=7)
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(7, 4, dtype=torch.float64)
    ours = torch.autograd.grad(run(model, x, memory).sum(), x)[0]
    recorded, update = [], module.update_links

    def record(*args):
        recorded.append(update(*args))
        return recorded[-1]

    monkeypatch.setattr(module, "update_links", record)
    run(model, x, memory)
    given = list(recorded)
    assert not any(links.predecessors.requires_grad for links in given)
    monkeypatch.setattr(module, "update_links", lambda *_: queue.pop(0))

    def with_given_links(x):
        queue.extend(given)
        return run(model, x, memory)

    queue: list = []
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert torch.autograd.gradcheck(with_given_links, (x,))
    torch.testing.assert_close(ours, torch.autograd.grad(with_given_links(x).sum(), x)[0])


def test_link_gradients_change_the_gradient_only(make):
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(7, 4, dtype=torch.float64)
    outputs, grads = [], []
    for flag in (False, True):
        model = strong(make, memory_size=7, link_gradients=flag)
        outputs.append(run(model, x, memory))
        grads.append(torch.autograd.grad(outputs[-1].sum(), x)[0])
    torch.testing.assert_close(*outputs, rtol=0, atol=0)
    assert not torch.allclose(*grads, rtol=1e-3)


def test_gradcheck_of_initial_links(make):
    model = strong(make, memory_size=6, link_gradients=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    x = torch.randn(4, 1, 3, dtype=torch.float64)
    _, state = model(x, model.initial_state(1, initial_memory=torch.randn(6, 4, dtype=torch.float64)))
    support = [part > 0 for part in state.links.named().values()]
    values = [part[on].clone().requires_grad_() for part, on in zip(state.links.named().values(), support)]

    def run(*values):
        parts = [torch.zeros(on.shape, dtype=torch.float64).masked_scatter(on, v) for on, v in zip(support, values)]
        return model(x[:2], state.with_fields(links=module.DenseLinks(*parts, state.links.k_links)))[0]

    assert torch.autograd.gradcheck(run, values)


def test_the_last_written_row_links_back_to_the_one_before(make):
    """With gates that write to fresh rows alone, N and P chain the rows in the order of writing."""
    model = make("sdnc", num_heads=1, k=1, memory_size=5)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias[9], model.interface.bias[10] = 1e3, -1e3  # alpha = 1, gamma = 0
        model.interface.bias[:4] = 1.0
        model.interface.bias[4:8] = 1.0
    x = torch.zeros(1, 1, 3, dtype=torch.float64)
    state = model.initial_state(1)
    for _ in range(3):
        _, state = model(x, state)
    assert state.links.precedence[0].nonzero().flatten().tolist() == [2]
    assert state.links.predecessors[0].nonzero().tolist() == [[1, 0], [2, 1]]
    assert state.links.successors[0].nonzero().tolist() == [[0, 1], [1, 2]]
