"""Prices of writing and reading are terms of the loss, seen in its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import sparsam
from sparsam.lab.recipes.baselines import TokenModel
from sparsam.lab.recipes.baselines.count import Count
from sparsam.lab.recipes.baselines.prices import Prices, charge


@pytest.mark.parametrize("prices", [Prices(0.3), Prices(0.3, 0.6), Prices(read=0.2), Prices(0.1, 0.5, 0.4)])
def test_the_gradient_is_that_of_a_loss_with_the_price_in_it(prices: Prices) -> None:
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(6, memory_size=16, word_size=4, num_heads=2, k=2, start="plain")
    x = torch.randn(5, 3, 6)
    first = layer.memory.sizes.interface.offsets()
    seen, _ = layer.past_and_present(x, torch.zeros(3, layer.reach, 6), None)
    interface = layer.interface(seen)
    gates, strengths = (interface[..., first[name] : first[name] + 2] for name in ("write_gate", "strength"))
    price = prices.of(gates, strengths)
    plain = torch.autograd.grad(layer(x)[0].square().mean() + price, list(layer.parameters()))
    charge(layer, prices)
    y = layer(x)[0]
    for one, other in zip(torch.autograd.grad(y.square().mean(), list(layer.parameters())), plain, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        assert layer(x)[0].equal(y)


def test_gates_above_the_decision_open_and_others_close() -> None:
    gates = torch.tensor([-2.0, -1.0, 0.5]).requires_grad_()  # 0.12, 0.27 and 0.62
    Prices(write=1.0, decided=0.2).of(gates, torch.zeros(3)).backward()
    assert [float(value) > 0 for value in gates.grad] == [True, False, False]  # a step goes down the gradient
    assert float(Prices(read=2.0).of(torch.zeros(2), torch.zeros(2))) == pytest.approx(2 * 0.6931, abs=1e-3)
    with pytest.raises(ValueError, match="write_decided: expected"):
        Prices(decided=1.5)


def test_counting_has_its_price() -> None:
    torch.manual_seed(0)
    layer, x = Count(5), torch.randn(7, 2, 5)
    price = 0.7 * F.hardsigmoid(layer.gate(layer.conv(x)[0])).mean()
    plain = torch.autograd.grad(layer(x)[0].square().mean() + price, list(layer.parameters()))
    charge(layer, Prices(count=0.7))
    for one, other in zip(
        torch.autograd.grad(layer(x)[0].square().mean(), list(layer.parameters())), plain, strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_token_model_charges_what_has_a_price() -> None:
    sizes = {"hidden_size": 16, "memory_size": 64, "word_size": 4, "num_heads": 2, "k": 2}
    for prices, hooks in (({"write_cost": 0.5}, [0, 1]), ({"read_cost": 0.1}, [0, 1]), ({"count_cost": 1.0}, [1, 0])):
        model = TokenModel(8, 8, mixers=("count", "memory"), **prices, **sizes)
        parts = model.blocks[0].mixer.gate, model.blocks[1].mixer.interface
        assert [len(part._forward_hooks) for part in parts] == hooks
