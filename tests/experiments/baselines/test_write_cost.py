"""A price of writing is a term of the loss, seen in its gradient."""

from __future__ import annotations

import torch

import sparsam
from sparsam.experiments.baselines import TokenModel
from sparsam.experiments.baselines.write_cost import charge_for_writing


def test_the_gradient_is_that_of_a_loss_with_the_price_in_it() -> None:
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(6, memory_size=16, word_size=4, num_heads=2, k=2)
    x = torch.randn(5, 3, 6)
    first = layer.memory.sizes.interface.offsets()["write_gate"]
    seen, _ = layer.past_and_present(x, torch.zeros(3, layer.reach, 6), None)
    gates = layer.interface(seen)[..., first : first + 2].sigmoid()
    plain = torch.autograd.grad(layer(x)[0].square().mean() + 0.3 * gates.mean(), list(layer.parameters()))
    charge_for_writing(layer, 0.3)
    y = layer(x)[0]
    for one, other in zip(torch.autograd.grad(y.square().mean(), list(layer.parameters())), plain, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        assert layer(x)[0].equal(y)


def test_a_token_model_charges_its_memories() -> None:
    sizes = {"hidden_size": 16, "memory_size": 64, "word_size": 4, "num_heads": 2, "k": 2}
    model = TokenModel(8, 8, mixers=("hold", "memory"), write_cost=0.5, **sizes)
    assert [len(getattr(block.mixer, "interface", model.norm)._forward_hooks) for block in model.blocks] == [0, 1]
