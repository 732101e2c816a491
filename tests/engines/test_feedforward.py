"""A feed-forward controller inside the engines' loops: the same numbers as step by step, and nothing carried."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.controllers.gru import gru_step
from sparsam.engines.engine import Controller
from sparsam.engines.feedforward import as_gru

SIZES = dict(hidden_size=6, memory_size=12, word_size=4, num_heads=2, k=2)


def model_of(name: str, **settings: object) -> sparsam.MemoryModel:
    torch.manual_seed(3)
    return sparsam.build(name, input_size=3, output_size=2, controller="feedforward", **SIZES, **settings)


def test_a_gru_that_keeps_nothing_is_a_feed_forward_layer() -> None:
    layer, before = torch.nn.Linear(5, 4).double(), torch.randn(7, 4, dtype=torch.float64)
    cell = as_gru(Controller("feedforward", 4, (layer.weight, layer.bias), ()))  # type: ignore[arg-type]
    gru = torch.nn.GRU(5, 4).double()
    with torch.no_grad():
        for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell.weights, strict=True):
            getattr(gru, f"{name}_l0").copy_(value)
    x = torch.eye(5, dtype=torch.float64)[torch.randint(5, (7,))]  # exact products, however torch adds them up
    assert torch.equal(gru_step(gru, x, before), torch.tanh(layer(x)))


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_it_runs_inside_the_native_loop_and_carries_nothing(name: str) -> None:
    model = model_of(name, engine="native")
    assert str(model.plan) == "native"
    _, state = model(torch.randn(5, 2, 3))
    assert state.hidden is None and state.start.hidden is None


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_the_same_as_step_by_step(name: str) -> None:
    """A hook makes the engine call the controller; outputs and all gradients are the same."""
    fused, called = model_of(name).double(), model_of(name).double()
    called.controller.layers[0].register_forward_hook(lambda module, inputs, output: None)
    assert fused.plan.fused and "controller.layers[0] has hooks" in str(called.plan)
    x = torch.randn(6, 3, 3, dtype=torch.float64)
    found = []
    for model in (fused, called):
        y, state = model(x, lengths=torch.tensor([6, 2, 4]))
        gradients = torch.autograd.grad(y.square().sum() + state.read.sum(), list(model.parameters()))
        found.append([y, state.read, *gradients])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    model = model_of("sam").to(dtype)
    x = torch.randn(4, 2, 3)
    y, _ = model(x.to(dtype))
    y.sum().backward()
    single = model_of("sam").to(dtype).float()
    torch.testing.assert_close(y.float(), single(x.to(dtype).float())[0], rtol=0.02, atol=0.02)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_several_layers_are_called() -> None:
    model = model_of("sam", num_layers=2)
    assert str(model.plan) == "native, step by step (a feed-forward controller of 2 layers is called step by step)"
