"""What the dense models' CUDA graphs are made of; that they replay the same is seen on a GPU (`benchmarks.gpu`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import sparsam
from sparsam.engines.cuda.dense import graphs, sequence
from sparsam.engines.cuda.dense.capturable import Capturable
from sparsam.engines.engine import Controller


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 16), (4, 129)])
def test_products_have_torchs_gradients(shape):
    torch.manual_seed(0)
    x, weight = torch.rand(shape, dtype=torch.float64) + 0.5, torch.randn(shape, dtype=torch.float64)
    x[torch.rand(shape) < 0.2] = 0
    x.requires_grad_()
    expected = torch.autograd.grad((torch.cumprod(x, -1) * weight).sum(), x)[0]
    with Capturable():
        torch.testing.assert_close(torch.autograd.grad((x.cumprod(-1) * weight).sum(), x)[0], expected)
        torch.testing.assert_close(torch.autograd.grad((torch.cumprod(x, dim=-1) * weight).sum(), x)[0], expected)


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
        after = state.with_fields(**carried, **fields)
        return y, *(getattr(after, name) for name in names)

    for given in (None, lengths):
        expected, after = model(x, state, lengths=given)
        with Capturable():
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
    run = Controller(kind.fused, 6, kind.weights(model.controller), interface)
    names = [*(("hidden", "cell") if controller == "lstm" else ("hidden",)), *model.memory.shapes()]
    step = sequence.stepper(model.memory, run, names)
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


class EagerCapture(graphs.Capture):
    """A capture whose graphs are plain calls, for machines without a GPU."""

    def __init__(self, step, inputs, wanted, padded, parameters, differentiated):
        self.busy, self.passes = False, 0
        self.inputs = [value.detach().clone() for value in inputs]
        for value, want in zip(self.inputs, wanted):
            value.requires_grad_(want)
        self.leaves = [v for v in (*self.inputs, *parameters) if v.requires_grad]

        def forward():
            x, *state = self.inputs
            ends = state.pop() if padded else None
            with torch.set_grad_enabled(differentiated):
                self.now = graphs.plain_sequence(step, x, tuple(state), ends)
            self.moving = [value.requires_grad for value in self.now]
            self.outputs = [value.detach() for value in self.now]
            self.given = [torch.empty_like(value) for value in self.now if value.requires_grad]

        def backward():
            moving = [value for value in self.now if value.requires_grad]
            # Once for each forward pass, as in a graph, whose backward pass computes where the forward pass lies.
            found = list(torch.autograd.grad(moving, self.leaves, self.given, allow_unused=True))
            self.found = [found.pop(0) if v.requires_grad else None for v in (*self.inputs, *parameters)]

        self.forward_graph = SimpleNamespace(replay=forward)
        self.backward_graph = SimpleNamespace(replay=backward)


def test_a_replayed_sequence_is_a_node_of_the_boundary(monkeypatch):
    monkeypatch.setattr(graphs, "Capture", EagerCapture)
    weight = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)

    def step(x, h, count):
        h = torch.tanh(x @ weight + h)
        return h * 2, h, count + h.detach()

    sequences = graphs.Sequences(step, (weight,))
    x = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)
    start = (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 2, dtype=torch.float64))
    expected = graphs.plain_sequence(step, x, start, None)
    wanted = torch.autograd.grad(expected[0].square().sum() + expected[1].sum(), (x, weight))
    y, h, count = sequences(x, start)
    torch.testing.assert_close((y, h, count), expected)
    assert y.requires_grad and not count.requires_grad
    loss = y.square().sum() + h.sum()
    for _ in range(2):  # the buffers run backward as often as they are not taken
        torch.testing.assert_close(torch.autograd.grad(loss, (x, weight), retain_graph=True), wanted)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, x, create_graph=True)
    sequences(x, start)
    with pytest.raises(RuntimeError, match="used again"):
        torch.autograd.grad(loss, x)
    with torch.no_grad():
        assert not sequences(x, start)[0].requires_grad


@pytest.mark.parametrize("steps", [*range(1, 40), 127, 128, 400])
def test_pieces_make_up_a_sequence(steps):
    found = graphs.capture_lengths(steps)
    assert sum(found) == steps and len(set(found)) == len(found)
    assert all(count < graphs.SHORT or count & (count - 1) == 0 for count in found)


@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_sequences_of_any_length_are_put_together(monkeypatch, name):
    made = []

    class Counted(EagerCapture):
        def __init__(self, step, inputs, *rest):
            made.append(inputs[0].shape[0])
            super().__init__(step, inputs, *rest)

    monkeypatch.setattr(graphs, "Capture", Counted)
    torch.manual_seed(0)
    sizes = dict(input_size=3, output_size=2, hidden_size=6, memory_size=9, word_size=4, num_heads=2)
    model = sparsam.build(name, engine="reference", dtype=torch.float64, **sizes)
    kind, interface = model.controller_kind, (model.interface.weight, model.interface.bias)
    controller = Controller(kind.fused, 6, kind.weights(model.controller), interface)
    names = ["hidden", "cell", *model.memory.shapes()]
    parameters = list(model.parameters())
    sequences = sequence.sequences_of(model.memory, controller, names)
    for steps in (13, 27, 11, 13):
        x = torch.randn(steps, 3, 3, dtype=torch.float64)
        for lengths in (None, torch.tensor([steps, 2, steps - 4])):
            results = []
            for captured in (True, False):
                state = model.initial_state(3)
                if captured:
                    joint, *values = sequences(x, tuple(getattr(state, name) for name in names), lengths)
                    y, after = model.answer(joint), dict(zip(names, values))
                else:
                    y, last = model(x, state, lengths=lengths)
                    after = {name: getattr(last, name) for name in names}
                if lengths is not None:
                    y = y * (torch.arange(steps)[:, None] < lengths)[..., None]
                loss = y.square().sum() + after["memory"].sum() + after["read_weights"].square().sum()
                results.append([y, *after.values(), *torch.autograd.grad(loss, parameters)])
            for ours, theirs in zip(*results):
                torch.testing.assert_close(ours, theirs)
    assert made == [13, 13, 16, 8, 3, 16, 8, 3]  # 13 came first, 11 needs nothing new; with and without lengths
    with torch.no_grad():
        sequences(x, tuple(getattr(model.initial_state(3), name) for name in names), None)
    assert made[8:] == [13]
