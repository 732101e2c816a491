"""First weights (`start=`): the numbers move what they name, in every memory and controller."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import sparsam
from sparsam.models import MODELS
from sparsam.start import STARTS, as_values, from_values

WITH_MEMORY = ("sam", "sdnc", "dam", "ntm", "dnc")
SIZES: dict[str, Any] = {"hidden_size": 8, "memory_size": 12, "word_size": 5, "num_heads": 2}


def made(name: str, start: Any, **more: Any) -> Any:
    torch.manual_seed(0)
    if name == "layer":
        return sparsam.SparseMemory(3, 2, start=start, **{key: SIZES[key] for key in SIZES if key != "hidden_size"})
    return sparsam.build(name, input_size=3, output_size=2, start=start, **SIZES, **more)


def moved(name: str, start: sparsam.Start, **more: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Field by field of the interface: the weights' factor and what was added to the biases."""
    plain, other = made(name, "plain", **more), made(name, start, **more)
    interface = plain.memory.interface
    found = {}
    for field, at in zip(interface.fields, interface.offsets().values()):
        rows = slice(at, at + field.size)
        factor = other.interface.weight[rows] / plain.interface.weight[rows]
        found[field.name] = factor, other.interface.bias[rows] - plain.interface.bias[rows]
    return found


@pytest.mark.parametrize(
    ("name", "role", "fields"),
    [
        ("sam", "sharpness", {"strength": 1.0}),
        ("sdnc", "write", {"write_gate": 1.0}),
        ("dam", "reuse", {"interpolation": 1.0}),
        ("layer", "reuse", {"interpolation": 1.0}),
        ("ntm", "sharpness", {"strengths": 1.0}),
        ("dnc", "sharpness", {"read_strengths": 1.0, "write_strength": 1.0}),
        ("dnc", "write", {"write_gate": 1.0}),
        ("dnc", "reuse", {"allocation_gate": -1.0}),  # that gate is the other way round
        ("dnc", "lookup", {"read_modes": [0.0, 1.0, 0.0] * 2}),
        ("sdnc", "lookup", {"read_modes": [0.0, 1.0, 0.0] * 2}),
        ("ntm", "lookup", {"gates": [1.0, 1.0, 0.0, 0.0], "taps": [0.0, 1.0, 0.0] * 2 + [0.0] * 6}),
        ("ntm", "walk", {"gates": [0.0, 0.0, -1.0, -1.0], "taps": [0.0] * 8 + [1.0, 0.0, 0.0, 1.0]}),
    ],
)
def test_a_number_moves_the_fields_it_names_and_no_other(name: str, role: str, fields: dict[str, Any]) -> None:
    for field, (factor, shift) in moved(name, sparsam.Start(**{role: 3.0})).items():
        torch.testing.assert_close(shift, (3.0 * torch.tensor(fields.get(field, 0.0))).expand_as(shift))
        torch.testing.assert_close(factor, torch.ones_like(factor))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sam", {"query", "write_word"}),
        ("layer", {"query", "write_word"}),
        ("ntm", {"keys", "add"}),
        ("dnc", {"read_keys", "write_key", "write_word"}),
    ],
)
def test_words_scales_what_is_looked_up_and_what_is_written(name: str, words: set[str]) -> None:
    for field, (factor, shift) in moved(name, sparsam.Start(words=2.0)).items():
        torch.testing.assert_close(factor, torch.full_like(factor, 2.0 if field in words else 1.0))
        assert not shift.any()


@pytest.mark.parametrize("name", [*WITH_MEMORY, "layer"])
def test_open_is_the_default_and_moves_weights_and_plain_none(name: str) -> None:
    torch.manual_seed(0)
    sizes = {key: SIZES[key] for key in SIZES if name != "layer" or key != "hidden_size"}
    kind = sparsam.SparseMemory if name == "layer" else MODELS[name]
    default = kind(3, 2, **sizes)
    plain, opened, nothing = made(name, "plain"), made(name, "open"), made(name, sparsam.Start())
    for key, value in plain.state_dict().items():
        assert torch.equal(value, nothing.state_dict()[key]), key
        assert torch.equal(default.state_dict()[key], opened.state_dict()[key]), key
    assert not torch.equal(plain.interface.bias, opened.interface.bias)
    assert default.start == "open" and "start='open'" in repr(default) and "start=Start(" in repr(nothing)


@pytest.mark.parametrize(("controller", "gate", "gates"), [("lstm", 1, 4), ("gru", 1, 3)])
def test_forget_moves_the_gate_that_keeps_a_controllers_state_in_every_layer(
    controller: str, gate: int, gates: int
) -> None:
    plain, other = (made("sam", s, controller=controller, num_layers=2) for s in ("plain", sparsam.Start(forget=-2.0)))
    for key, value in plain.controller.state_dict().items():
        change = other.controller.state_dict()[key] - value
        expected = torch.zeros_like(change)
        if key.startswith("bias_hh"):
            expected.view(gates, -1)[gate] = -2.0
        torch.testing.assert_close(change, expected)


def test_a_controller_with_its_gate_shut_keeps_nothing() -> None:
    """What the number is for: h_t then depends on the present input alone."""
    for controller in ("lstm", "gru"):
        model = made("sam", sparsam.Start(forget=-60.0), controller=controller)
        for name in ("weight_hh_l0",):
            torch.nn.init.zeros_(getattr(model.controller, name))
        x = torch.randn(4, 1, model.controller.input_size)
        whole, alone = model.controller(x)[0][3], model.controller(x[3:])[0][0]
        torch.testing.assert_close(whole, alone)


def test_controllers_without_such_a_gate_and_those_of_the_user_are_left_alone() -> None:
    own = torch.nn.LSTM(13, 8)
    before = {key: value.clone() for key, value in own.state_dict().items()}
    made("sam", "open", controller=own)
    assert all(torch.equal(value, own.state_dict()[key]) for key, value in before.items())
    plain, other = (made("sam", start, controller="feedforward") for start in ("plain", "open"))
    for key, value in plain.controller.state_dict().items():
        assert torch.equal(value, other.controller.state_dict()[key])


@pytest.mark.parametrize("name", ["sam", "ntm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_that_begins_as_a_feed_forward_layer(name: str, layers: int) -> None:
    model = made(name, sparsam.Start(feedforward=200.0), num_layers=layers)
    lstm, x = model.controller, torch.randn(3, 2, model.controller.input_size)
    torch.testing.assert_close(lstm(x)[0][2], lstm(x[2:])[0][0])  # of this step alone
    if layers == 1:
        cell = slice(2 * 8, 3 * 8)
        layer = torch.tanh(x @ lstm.weight_ih_l0[cell].T + lstm.bias_ih_l0[cell])
        assert layer.std() > 0.05
        assert torch.allclose(lstm(x)[0], torch.tanh(layer), atol=1e-6)
    both = made(name, sparsam.Start(feedforward=4.0, forget=1.0)).controller
    gates = (both.bias_ih_l0 + both.bias_hh_l0).view(4, 8)
    assert gates[0].tolist() == gates[3].tolist() == [4.0] * 8 and gates[1].tolist() == [-3.0] * 8
    for controller in ("gru", "feedforward"):
        with pytest.raises(ValueError, match=r"start\.feedforward: expected 0 beside controller="):
            made("sam", sparsam.Start(feedforward=4.0), controller=controller)


def test_tied_words_are_the_queries_of_the_read_heads() -> None:
    for name in (*WITH_MEMORY, "layer"):
        model = made(name, sparsam.Start(tied=True))
        asked = model.memory.interface.split(model.interface(torch.randn(1, model.interface.in_features)))
        queries, words = (
            next(asked[field.name] for field in model.memory.interface.fields if field.role == role)
            for role in ("query", "word")
        )
        assert torch.equal(queries[:, : words.shape[1]], words), name


def test_an_ntm_that_walks_writes_row_after_row_and_reads_what_it_looks_up() -> None:
    """What the numbers are for: the writes of 9 steps take 9 rows, and a read finds the word of the same step."""
    start = sparsam.Start(walk=20.0, lookup=20.0, sharpness=20.0, words=5.0, tied=True)
    torch.manual_seed(0)
    model = sparsam.NTM(3, 2, **(SIZES | {"num_heads": 1}), start=start, controller="feedforward")
    states: list[Any] = [None]
    for _ in range(9):
        states.append(model(torch.randn(1, 1, 3), states[-1])[1])
    written, read = (torch.stack([getattr(s, f"{kind}_weights")[0] for s in states[1:]]) for kind in ("write", "read"))
    assert torch.equal(written.argmax(-1), torch.arange(1, 10)[:, None]) and written.amax(-1).min() > 0.9
    assert torch.equal(read.argmax(-1), written.argmax(-1))


def test_what_it_is_cannot_be_changed_later_and_a_wrong_one_is_refused() -> None:
    model = made("sam", "plain")
    with pytest.raises(AttributeError):
        model.start = "open"
    with pytest.raises(dataclasses.FrozenInstanceError):
        STARTS["open"].write = 1.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="start: expected one of 'open', 'plain', got 'opened'; did you mean 'open'"):
        made("sam", "opened")
    with pytest.raises(TypeError, match="start: expected 'open', 'plain' or a Start, got dict"):
        made("sam", {"write": 1.0})
    for wrong in ({"write": float("nan")}, {"words": -1.0}, {"feedforward": -1.0}):
        with pytest.raises(ValueError, match=f"start.{next(iter(wrong))}: expected a number in"):
            sparsam.Start(**wrong)
    assert sparsam.LSTM(3, 2).start is None


@pytest.mark.parametrize("start", ["open", "plain", sparsam.Start(write=1.0, tied=True)])
def test_a_file_holds_it(start: Any) -> None:
    assert from_values(as_values(start)) == start
    with pytest.raises(ValueError, match=r"start: expected one of .*, got 'writ'; did you mean 'write'"):
        from_values({"writ": 1.0})


def test_gradients_reach_weights_that_were_moved() -> None:
    for name in WITH_MEMORY:
        model = made(name, "open")
        model(torch.randn(4, 2, 3))[0].sum().backward()
        assert all(p.is_leaf and p.grad is not None and p.grad.isfinite().all() for p in model.interface.parameters())
