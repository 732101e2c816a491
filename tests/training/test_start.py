"""First weights that are moved before training."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.training.config import RunConfig
from sparsam.training.start import StartConfig


def small(name: str):
    torch.manual_seed(0)
    return sparsam.build(name, input_size=3, output_size=2, hidden_size=8, memory_size=6, word_size=5, num_heads=2)


def test_each_setting_moves_what_it_names():
    plain, moved = small("sam"), small("sam")
    StartConfig(forget=1.0, write=2.0, reuse=-3.0, sharpness=4.0, words=0.5).apply(moved)
    bias = (moved.controller.bias_hh_l0 - plain.controller.bias_hh_l0).view(4, 8)
    torch.testing.assert_close(bias.mean(1), torch.tensor([0.0, 1.0, 0.0, 0.0]))
    gates = (moved.interface.bias - plain.interface.bias)[20:].view(3, 2)
    torch.testing.assert_close(gates, torch.tensor([[4.0, 4.0], [2.0, 2.0], [-3.0, -3.0]]))
    torch.testing.assert_close(moved.interface.weight[:20], plain.interface.weight[:20] / 2)
    assert torch.equal(moved.interface.weight[20:], plain.interface.weight[20:])


def test_tied_words_are_the_queries():
    model = small("sdnc")
    StartConfig(tied=True).apply(model)
    h = torch.randn(8)
    asked = model.interface(h)
    assert torch.equal(asked[:10], asked[10:20])


def test_the_default_changes_nothing():
    plain, moved = small("sam"), small("sam")
    StartConfig().apply(moved)
    for a, b in zip(plain.parameters(), moved.parameters(), strict=True):
        assert torch.equal(a, b)


def test_other_models_have_a_forget_gate_only():
    model = sparsam.build("lstm", input_size=3, output_size=2, hidden_size=8)
    StartConfig(forget=1.0).apply(model)
    with pytest.raises(ValueError, match=r"start: lstm .* only its controller"):
        StartConfig(write=1.0).apply(model)


@pytest.mark.parametrize("name", ["lstm", "sam", "ntm"])
def test_an_lstm_that_begins_as_a_feed_forward_layer(name):
    sizes = {} if name == "lstm" else {"memory_size": 16, "word_size": 4, "num_heads": 1}
    model = sparsam.build(name, input_size=3, output_size=2, hidden_size=8, **sizes)
    StartConfig(feedforward=200.0).apply(model)
    lstm, x = model.controller, torch.randn(3, 2, model.controller.input_size)
    cell = slice(2 * 8, 3 * 8)
    layer = torch.tanh(x @ lstm.weight_ih_l0[cell].T + lstm.bias_ih_l0[cell])
    assert layer.std() > 0.05
    assert torch.allclose(lstm(x)[0], torch.tanh(layer), atol=1e-6)  # of this step alone


def test_every_layer_of_an_lstm_begins_as_one():
    model = sparsam.build("lstm", input_size=3, output_size=2, hidden_size=8, num_layers=2)
    StartConfig(feedforward=200.0).apply(model)
    x = torch.randn(3, 2, 3)
    assert torch.allclose(model.controller(x)[0][2], model.controller(x[2:])[0][0], atol=1e-6)


@pytest.mark.parametrize("controller", ["feedforward", "gru"])
def test_only_an_lstm_begins_as_a_feed_forward_layer(controller):
    model = sparsam.SAM(3, 2, hidden_size=8, memory_size=16, word_size=4, num_heads=1, controller=controller)
    with pytest.raises(ValueError, match=r"start\.feedforward: expected 0"):
        StartConfig(feedforward=4.0).apply(model)


def test_a_forget_gate_may_be_moved_as_well():
    model = sparsam.build("lstm", input_size=3, output_size=2, hidden_size=8)
    StartConfig(feedforward=4.0, forget=1.0).apply(model)
    gates = (model.controller.bias_ih_l0 + model.controller.bias_hh_l0).view(4, 8)
    assert gates[0].tolist() == gates[3].tolist() == [4.0] * 8 and gates[1].tolist() == [-3.0] * 8
    with pytest.raises(ValueError, match=r"start\.feedforward: expected at least 0, got -1"):
        StartConfig(feedforward=-1.0)


def test_it_is_part_of_a_config():
    config = RunConfig(start=StartConfig(write=2.0, tied=True))
    assert RunConfig.from_json(config.to_json()) == config
    assert RunConfig.from_json(RunConfig().to_json()).start is None


def test_a_setting_brings_it_into_being():
    config = RunConfig().with_settings(["start.write=2", "start.tied=true"])
    assert config.start == StartConfig(write=2.0, tied=True)


@pytest.mark.parametrize("controller", ["feedforward", "gru"])
def test_a_controller_without_a_forget_gate(controller):
    model = sparsam.SAM(3, 2, hidden_size=8, memory_size=16, word_size=4, num_heads=1, controller=controller)
    before = model.interface.bias.detach().clone()
    StartConfig(write=1.0).apply(model)
    assert (model.interface.bias.detach() - before).sum().item() == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(ValueError, match=r"start\.forget: expected 0"):
        StartConfig(forget=1.0).apply(model)
