"""What the dense models' CUDA graphs are made of; that they replay the same is seen on a GPU (`benchmarks.gpu`)."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import sparsam
from sparsam.engines.cuda import dense, graphs
from sparsam.engines.engine import Cell


def test_products_have_torchs_gradients():
    x = torch.rand(3, 7, dtype=torch.float64)
    x[0, 2] = x[1, 0] = x[1, 5] = 0
    x.requires_grad_()
    weight = torch.randn(3, 7, dtype=torch.float64)
    expected = torch.autograd.grad((torch.cumprod(x, -1) * weight).sum(), x)[0]
    with graphs.Capturable():
        torch.testing.assert_close(torch.autograd.grad((x.cumprod(-1) * weight).sum(), x)[0], expected)
        torch.testing.assert_close(torch.autograd.grad((torch.cumprod(x, dim=-1) * weight).sum(), x)[0], expected)
    expected = torch.autograd.grad(x.prod(dim=0).sum(), x)[0]
    with graphs.Capturable():
        torch.testing.assert_close(torch.autograd.grad(x.prod(dim=0).sum(), x)[0], expected)


@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_the_sequence_that_is_captured_is_the_references(name):
    torch.manual_seed(0)
    model = sparsam.build(name, input_size=3, output_size=2, hidden_size=6, memory_size=9, word_size=4, num_heads=2)
    model.engine = "reference"
    x, lengths = torch.randn(5, 3, 3), torch.tensor([5, 2, 4])
    state = model.initial_state(3)
    names = [name for name, _ in state.values()]

    def step(x, *values):
        state = model.state_class(**dict(zip(names, values)))
        hidden, carried = model.control(x, state)
        read, fields, _ = model.memory.step(model.interface(hidden), state)
        y = model.answer(torch.cat([hidden, read.flatten(1)], dim=-1)[None])[0]
        after = dataclasses.replace(state, **carried, **fields)
        return y, *(getattr(after, name) for name in names)

    for given in (None, lengths):
        expected, after = model(x, state, lengths=given)
        with graphs.Capturable():
            y, *values = graphs.plain_sequence(step, x, tuple(getattr(state, name) for name in names), given)
        torch.testing.assert_close(y, expected)
        for name, value in zip(names, values):
            torch.testing.assert_close(value, getattr(after, name))


@pytest.mark.parametrize("controller", ["lstm", "gru"])
@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_the_step_that_is_captured_is_the_references(name, controller):
    torch.manual_seed(0)
    sizes = dict(input_size=3, output_size=2, hidden_size=6, memory_size=9, word_size=4, num_heads=2)
    model = sparsam.build(name, engine="reference", controller=controller, **sizes)
    x, state = torch.randn(4, 2, 3), model.initial_state(2)
    kind, interface = model.controller_kind, (model.interface.weight, model.interface.bias)
    cell = Cell(kind.cell, 6, kind.weights(model.controller), interface)
    names = [*(("hidden", "cell") if controller == "lstm" else ("hidden",)), *model.memory.shapes()]
    step = dense.stepper(model.memory, cell, names)
    joint, *_ = graphs.plain_sequence(step, x, tuple(getattr(state, name) for name in names), None)
    results = []
    for y in (model.answer(joint), model(x, state)[0]):
        results.append([y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_captured_runs_without_a_graph(monkeypatch):
    def refuse(*args):
        raise RuntimeError("no capture here")

    monkeypatch.setattr(graphs, "Capture", refuse)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    sequences = graphs.Sequences(lambda x, h: (x + h, h + 1), ())
    x = torch.randn(3, 2, 1)
    with pytest.warns(UserWarning, match="no capture here"):
        y, h = sequences(x, (torch.zeros(2, 1),))
    assert sequences.reason == "RuntimeError: no capture here"
    torch.testing.assert_close(y, x + torch.arange(3.0)[:, None, None])
    assert torch.equal(h, torch.full((2, 1), 3.0))
    sequences(x, (torch.zeros(2, 1),))  # and says so once
