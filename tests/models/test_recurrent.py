"""What a call remembers of the one before: the engine chosen, the state put out. Whatever changes in between counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import sparsam

SIZES = {"hidden_size": 5, "memory_size": 20, "word_size": 4, "num_heads": 2, "k": 2}


def model_of(**settings: Any) -> Any:
    torch.manual_seed(0)
    return sparsam.SAM(3, 2, **{**SIZES, **settings})


@pytest.mark.parametrize("controller", ["lstm", "gru", "feedforward"])
def test_a_call_looks_at_the_first_parameter_of_torch(controller: str) -> None:
    model = model_of(controller=controller)
    assert model._planned()[1] is next(model.parameters())
    torch.nn.utils.parametrizations.weight_norm(model.interface)
    assert model._planned()[1] is next(model.parameters())


def test_a_changed_model_looks_at_the_state_again() -> None:
    model, x = model_of(), torch.randn(1, 2, 3)
    _, state = model(x)
    model(x, state)
    with pytest.raises(ValueError, match="batch size"):
        model(torch.randn(1, 3, 3), state)
    with pytest.raises((TypeError, ValueError), match="state"):
        model.double()(x.double(), state)
    model.float().controller = torch.nn.LSTM(3 + 8, 7)
    model.interface = torch.nn.Linear(7, model.memory.interface.size)
    with pytest.raises(ValueError, match="hidden"):
        model(x, state)


def test_another_models_state_is_looked_at() -> None:
    _, state = model_of(word_size=6)(torch.randn(1, 2, 3))
    with pytest.raises(ValueError, match="read"):
        model_of()(torch.randn(1, 2, 3), state)


def test_another_engine_is_another_choice() -> None:
    model, x = model_of(), torch.randn(2, 2, 3)
    assert model.engine_used == "native"
    y, state = model(x)
    model.engine = "reference"
    assert model.engine_used == "reference"
    torch.testing.assert_close(model(x)[0], y)
    with pytest.raises(ValueError, match="convert it with"):
        model(x, state)
    model.engine = "auto"
    assert model.engine_used == "native" and model(x, state)[0].shape == y.shape


def test_a_changed_setting_counts() -> None:
    model, x = model_of(), torch.randn(6, 2, 3)
    before = model(x)[0]
    model.k = 1
    assert not torch.equal(model(x)[0], before)
    model.k = 2
    assert torch.equal(model(x)[0], before)


def test_a_state_holds_its_fields_and_nothing_else() -> None:
    _, state = model_of()(torch.randn(2, 2, 3))
    assert set(vars(state)) == set(state.field_names)
