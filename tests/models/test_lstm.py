"""The LSTM baseline is `nn.LSTM` with an output layer, whole or step by step."""

from __future__ import annotations

import torch


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
        y, state, accesses = model.reference_step(step, state)
        outputs.append(y)
        assert accesses == []
    torch.testing.assert_close(torch.stack(outputs), whole)
    torch.testing.assert_close(state.cell, last.cell)
    ours, theirs = (torch.autograd.grad(y.square().sum(), x)[0] for y in (whole, torch.stack(outputs)))
    torch.testing.assert_close(ours, theirs)
