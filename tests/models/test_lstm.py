"""The LSTM baseline is `nn.LSTM` with an output layer, whole or step by step."""

from __future__ import annotations

import torch

import sparsam


def test_equals_nn_lstm(make):
    model = make("lstm")
    twin = torch.nn.LSTM(3, 4).double()
    twin.load_state_dict(model.controller.state_dict())
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    y, state = model(x)
    hidden, (h, c) = twin(x)
    torch.testing.assert_close(y, hidden @ model.output.weight.T + model.output.bias)
    torch.testing.assert_close(state.hidden, h[0])
    torch.testing.assert_close(state.cell, c[0])


def test_steps_equal_the_whole_sequence(make):
    model = make("lstm")
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    whole, last = model(x)
    state, outputs = model.initial_state(2), []
    for step in x:
        y, state = model(step[None], state)
        outputs.append(y[0])
    assert len(model.trace(x)) == 0
    torch.testing.assert_close(torch.stack(outputs), whole)
    torch.testing.assert_close(state.cell, last.cell)
    ours, theirs = (torch.autograd.grad(y.square().sum(), x)[0] for y in (whole, torch.stack(outputs)))
    torch.testing.assert_close(ours, theirs)


def test_takes_hidden_and_cell_as_nn_lstm_does(make):
    model = make("lstm")
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    h, c = torch.randn(2, 1, 2, 4, dtype=torch.float64)
    y, state = model(x, (h, c))
    hidden, (last, _) = model.controller(x, (h, c))
    torch.testing.assert_close(y, model.output(hidden))
    torch.testing.assert_close(state.hidden, last[0])


def test_layers(make):
    model = make("lstm", num_layers=2)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    y, state = model(x)
    assert state.hidden.shape == (2, 2, 4)
    first, state = model(x[:3])
    second, _ = model(x[3:], state)
    torch.testing.assert_close(torch.cat([first, second]), y)


def test_has_the_attributes_of_nn_lstm(case):
    asked = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "proj_size", "bidirectional")
    twin, model = torch.nn.LSTM(3, 4), case.make()
    assert {name: getattr(model, name) for name in asked} == {name: getattr(twin, name) for name in asked}
    layered = sparsam.SAM(3, 2, memory_size=64, num_layers=2, dropout=0.5)
    assert (layered.num_layers, layered.dropout) == (2, 0.5)


def test_a_profile_has_a_row_of_the_model(case):
    model, x = case.make(), torch.randn(2, 1, 3, dtype=torch.float64)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        y, _ = model(x)
    (row,) = [event for event in profile.key_averages() if event.key == f"sparsam::{type(model).__name__}"]
    assert row.count == 1 and torch.equal(y, model(x)[0])
