"""Every controller with every memory on every engine: outputs and all gradients are the reference's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sparsam
from sparsam import engines
from sparsam.controllers import KINDS
from sparsam.controllers.gru import gru_step
from sparsam.models import MODELS
from tests.beside import assert_same, run

SIZES = dict(input_size=3, output_size=2, hidden_size=5, memory_size=11, word_size=4, num_heads=2)
READS = 2 * 4


class Running(nn.Module):
    """A controller of a user's own: an average of what it has seen, and a step counter."""

    output_size = 5

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3 + READS, 5)

    def initial_state(self, batch_size):
        like = self.inner.weight
        return {"mean": like.new_zeros(batch_size, 5), "steps": like.new_zeros(batch_size, 1)}

    def forward(self, x, state):
        steps = state["steps"] + 1
        mean = state["mean"] + (torch.tanh(self.inner(x)) - state["mean"]) / steps
        return mean, {"mean": mean, "steps": steps}


CONTROLLERS = {
    "lstm": lambda: "lstm",
    "gru": lambda: "gru",
    "feedforward": lambda: "feedforward",
    "two layers": lambda: nn.LSTM(3 + READS, 5, num_layers=2),
    "two layers of gru": lambda: nn.GRU(3 + READS, 5, num_layers=2, batch_first=True),
    "own": Running,
    "mlp": lambda: nn.Sequential(nn.Linear(3 + READS, 7), nn.ReLU(), nn.Linear(7, 5)),
}


def model_of(name, controller, engine, **settings):
    if name in ("sam", "sdnc"):
        settings = {"k": 3, **settings}
    torch.manual_seed(3)
    return sparsam.build(name, **SIZES, engine=engine, controller=CONTROLLERS[controller](), **settings).double()


def fast_engines(name):
    model = model_of(name, "lstm", "auto")
    return [e for e in engines.ENGINES if e != "reference" and engines.why_not(e, model) is None]


PAIRS = [(name, controller, e) for name in ("sam", "sdnc") for controller in CONTROLLERS for e in fast_engines(name)]


@pytest.mark.parametrize("name, controller, engine", PAIRS)
@pytest.mark.parametrize("settings", [{}, {"link_gradients": True}], ids=["", "link_gradients"])
def test_fast_equals_reference(name, controller, engine, settings):
    if settings and name != "sdnc":
        settings = {"similarity": "dot"}
    x, memory = torch.randn(7, 3, 3, dtype=torch.float64), torch.randn(11, 4, dtype=torch.float64)
    how = {"x": x, "memory": memory, "splits": (4,), "lengths": torch.tensor([3, 1, 2])}
    fast, reference = (model_of(name, controller, e, **settings) for e in (engine, "reference"))
    assert_same(fast, run(fast, **how), run(reference, **how), 1e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_two_calls_equal_one_with_every_memory(name, controller):
    model = model_of(name, controller, "reference")
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    whole, last = model(x)
    first, state = model(x[:2])
    second, state = model(x[2:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(state.read, last.read)


@pytest.mark.parametrize("controller", ["gru", "feedforward", "own"])
def test_gradcheck(controller):
    model = model_of("sam", controller, "reference")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, m: model(x, model.initial_state(2, initial_memory=m))[0], (x, memory))


def test_the_gru_step_is_that_of_nn_gru():
    gru = nn.GRU(3, 4).double()
    x, h = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    _, expected = gru(x[None], h[None])
    torch.testing.assert_close(gru_step(gru, x, h), expected[0])


@pytest.mark.parametrize("engine", ["reference", *fast_engines("sam")])
def test_padding_changes_nothing_for_a_users_own_controller(engine):
    model = model_of("sam", "own", engine)
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    y, state = model(x, lengths=torch.tensor([2, 5]))
    alone, short = model(x[:2, :1])
    torch.testing.assert_close(y[:2, :1], alone)
    assert (y[2:, 0] == 0).all()
    torch.testing.assert_close(state.controller["mean"][:1], short.controller["mean"])


def test_names_come_from_the_registry():
    assert {"lstm", "gru", "feedforward", "own"} <= set(KINDS)
    with pytest.raises(ValueError, match=r"controller: expected one of .*did you mean 'gru'"):
        sparsam.SAM(3, 2, controller="grru")
    with pytest.raises(TypeError, match=r"controller: expected a name or an nn.Module, got int"):
        sparsam.SAM(3, 2, controller=3)
    with pytest.raises(ValueError, match=r"controller: expected input_size = I \+ R·W = 131, got one of 3"):
        sparsam.SAM(3, 2, controller=nn.LSTM(3, 5))


def test_a_controller_that_returns_something_else_is_told_the_protocol():
    class Wrong(Running):
        def forward(self, x, state):
            return super().forward(x, state)[0]

    with pytest.raises(TypeError, match=r"controller: expected Wrong.forward\(x, state\) to return \(h, state\)"):
        sparsam.SAM(3, 2, word_size=4, num_heads=2, controller=Wrong())(torch.zeros(1, 1, 3))
    with pytest.raises(ValueError, match=r"controller: expected h of shape \(B, H\)"):
        sparsam.SAM(3, 2, word_size=4, num_heads=2, controller=nn.Flatten(0))(torch.zeros(1, 1, 3))
