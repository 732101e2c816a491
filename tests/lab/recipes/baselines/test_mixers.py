"""Every mixer by its contract: causal, and pieces equal the whole; the delta rule against its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from sparsam.lab.recipes.baselines.attention import Attention
from sparsam.lab.recipes.baselines.convolution import ShortConvolution
from sparsam.lab.recipes.baselines.delta import DeltaRule, delta_chunks, delta_steps
from sparsam.lab.recipes.baselines.model import make_mixer

SMALL: dict[str, dict[str, Any]] = {
    "memory": {"memory_size": 128, "word_size": 4, "num_heads": 2, "k": 3},
    "sam": {"memory_size": 128, "word_size": 4, "num_heads": 2, "k": 3, "hidden_size": 6},
    "attention": {"num_heads": 2},
    "delta": {"num_heads": 2},
    "lstm": {},
}


@pytest.fixture(params=SMALL)
def mixer(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return make_mixer(request.param, 8, **SMALL[request.param]).double()


def test_pieces_with_state_equal_the_whole_and_later_steps_change_nothing(mixer: nn.Module) -> None:
    x = torch.randn(21, 3, 8, dtype=torch.float64)
    whole, _ = mixer(x)
    assert whole.shape == x.shape
    pieces, state = [], None
    for piece in x.split([7, 1, 2, 11]):
        y, state = mixer(piece, state)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces), whole)
    torch.testing.assert_close(mixer(x[:13])[0], whole[:13])


def test_every_parameter_gets_a_gradient(mixer: nn.Module) -> None:
    y, _ = mixer(torch.randn(12, 2, 8, dtype=torch.float64))
    y.square().sum().backward()
    for name, parameter in mixer.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_attention_is_the_softmax_over_all_steps_so_far() -> None:
    layer = Attention(6, num_heads=1, conv=1).double()
    x = torch.randn(5, 1, 6, dtype=torch.float64)
    q, k, v = layer.project(layer.conv(x)[0])[:, 0].chunk(3, -1)
    scores = (q @ k.T / 6**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(layer(x)[0][:, 0], layer.output(scores.softmax(-1) @ v))


@pytest.mark.parametrize("steps", [1, 3, 4, 11, 16])
def test_chunks_of_the_delta_rule_equal_its_definition(steps: int) -> None:
    torch.manual_seed(steps)
    q, k, v = torch.randn(3, 2, 2, steps, 5, dtype=torch.float64)
    k = k / k.norm(dim=-1, keepdim=True)
    gate = 2 * torch.rand(2, 2, steps, dtype=torch.float64)
    start = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    inputs = [part.clone().requires_grad_() for part in (q, k, v, gate, start)]
    results = []
    for function in (delta_steps, lambda *parts: delta_chunks(*parts, size=4)):
        read, last = function(*inputs)
        gradients = torch.autograd.grad(read.sin().sum() + last.cos().sum(), inputs)
        results.append((read, last, *gradients))
    for plain, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, plain)


def test_a_gate_of_one_replaces_what_was_held_under_the_key() -> None:
    key = torch.tensor([0.6, 0.8]).expand(1, 2, 2)
    values = torch.tensor([[[1.0, 2.0], [3.0, -1.0]]])
    read, _ = delta_steps(key, key, values, torch.ones(1, 2), torch.zeros(1, 2, 2))
    torch.testing.assert_close(read, values)


def test_an_lstm_with_more_units_than_the_model_is_wide_comes_back_to_its_width() -> None:
    assert make_mixer("lstm", 8, hidden_size=12)(torch.randn(3, 2, 8))[0].shape == (3, 2, 8)


def test_convolution_is_causal_and_by_channel() -> None:
    layer = ShortConvolution(3, taps=2)
    x = torch.randn(4, 1, 3)
    y, state = layer(x)
    old, new = layer.weight[:, 0].T
    torch.testing.assert_close(y[1:, 0], new * x[1:, 0] + old * x[:-1, 0])
    torch.testing.assert_close(y[0, 0], new * x[0, 0])
    assert state.equal(x[-1:])


def test_wrong_arguments_are_named() -> None:
    for kind in (Attention, DeltaRule):
        with pytest.raises(ValueError, match="num_heads: expected a divisor of the width 8"):
            kind(8, num_heads=3)
    with pytest.raises(ValueError, match="taps"):
        ShortConvolution(4, 0)
