"""One step per call without a gradient: buffers that are used again, states that stay values.

As `sequence_cases.py` by `test_engine.py`. Without a GPU the steps are not captured, everything else is the same.
"""

from __future__ import annotations

import copy
import io

import pytest
import torch

import sparsam
from sparsam.engines.cuda import streaming
from sparsam.engines.cuda.launch import interpreted

SIZES = dict(input_size=3, output_size=2, hidden_size=6, memory_size=40, word_size=5, num_heads=2, k=2)


@pytest.fixture
def device():
    return "cpu" if interpreted() else "cuda"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(streaming, "CALLS_BEFORE", 0)
    monkeypatch.setattr(streaming, "STEPS_HELD", 3)  # so that it is made larger, and the ring comes around


def model_of(name, device, **settings):
    torch.manual_seed(0)
    return sparsam.build(name, engine="cuda", **(SIZES | settings)).to(device)


def plainly(model, x, monkeypatch, state=None):
    """Step by step without buffers."""
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(streaming, "run", lambda *args: None)
        return by_steps(model, x, state)


def by_steps(model, x, state=None):
    found = []
    for piece in x.split(1):
        y, state = model(piece, state)
        found.append(y)
    return torch.cat(found), state


@pytest.mark.parametrize(
    "name,settings",
    [
        ("sam", {}),
        ("sdnc", {"memory_size": 14, "allocation": "free"}),
        ("sam", {"controller": "gru", "memory_size": 14}),
    ],
)
def test_steps_are_the_plain_ones(name, settings, device, monkeypatch):
    model = model_of(name, device, **settings)
    x = torch.randn(7, 2, 3, device=device)
    expected, last = plainly(model, x, monkeypatch)
    with torch.no_grad():
        found, state = by_steps(model, x)
    assert isinstance(state.memory, streaming.HeldMemory)
    assert any(near for _, _, near in streaming._streams[model.memory].turns) == (name == "sam")
    assert torch.equal(found, expected)
    for b in range(2):
        for ours, theirs in zip(state.memory_rows(b), last.memory_rows(b)):
            assert torch.equal(ours, theirs)
    ours, theirs = (s.to(engine="reference").memory for s in (state, last))
    assert torch.equal(ours.last_access, theirs.last_access) and torch.equal(ours.clock, theirs.clock)


def test_the_layer_without_a_controller(device, monkeypatch):
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(3, memory_size=20, word_size=5, num_heads=2, k=2, engine="cuda").to(device)
    x = torch.randn(5, 2, 3, device=device)
    expected, _ = plainly(layer, x, monkeypatch)
    with torch.no_grad():
        found, _ = by_steps(layer, x)
    assert torch.equal(found, expected)


def test_buffers_are_used_again_and_states_are_values(device, monkeypatch):
    model = model_of("sam", device)
    x = torch.randn(6, 1, 3, device=device)
    with torch.no_grad():
        _, state = by_steps(model, x[:2])
        stream = streaming._streams[model.memory]
        by_steps(model, x, state)
        used = len(stream.buffers)
        kept = [state]  # every state is held: buffers run out, and the plain way goes on
        for piece in x:
            kept.append(model(piece[None], kept[-1])[1])
        hidden = kept[2].hidden
        words = kept[3].memory.words[0]
        before = [hidden.clone(), words.clone(), kept[1].read_rows.clone()]
        again, _ = by_steps(model, x, kept[0])
        one = kept[1]
        del kept[1:]
        by_steps(model, 2 * x)
        expected, _ = plainly(model, x, monkeypatch, state)
    assert used <= 3 and len(stream.buffers) <= streaming.MOST_BUFFERS
    assert torch.equal(again, expected)
    for ours, theirs in zip((hidden, words, one.read_rows), before):
        assert torch.equal(ours, theirs)


def test_a_state_with_other_tensors_is_taken_as_it_is(device, monkeypatch):
    model = model_of("sam", device)
    x = torch.randn(3, 2, 3, device=device)
    with torch.no_grad():
        _, state = by_steps(model, x)
        changed = state.with_fields(hidden=state.hidden + 1)
        found, _ = model(x[:1], changed)
        assert torch.equal(found, plainly(model, x[:1], monkeypatch, changed)[0])
        mask = torch.tensor([True, False], device=device)
        found, _ = model(x[:1], state.reset(mask))
        assert torch.equal(found, plainly(model, x[:1], monkeypatch, state.reset(mask))[0])
        model.output.weight.mul_(2)
        model.controller.weight_hh_l0.mul_(2)  # weights are read anew at every step
        assert torch.equal(model(x[:1], state)[0], plainly(model, x[:1], monkeypatch, state)[0])


def test_words_that_are_changed_by_hand_are_carried_on(device, monkeypatch):
    """A step hands on what it changed alone, so what somebody else changed has to be noticed."""
    model = model_of("sam", device)
    x = torch.randn(6, 2, 3, device=device)
    with torch.no_grad():
        _, state = by_steps(model, x[:2])
        state.memory.words[:, 5:] = 0.5
        copied = state.clone()
        found, _ = by_steps(model, x[2:], state)
        assert torch.equal(found, plainly(model, x[2:], monkeypatch, copied)[0])


def test_a_gradient_goes_the_plain_way(device):
    model = model_of("sam", device)
    x = torch.randn(4, 1, 3, device=device)
    with torch.no_grad():
        _, state = by_steps(model, x)
    y, after = model(x[:1], state)
    with torch.no_grad():
        by_steps(model, x, state)  # the tensors that wait for the backward pass are not written to
    y.sum().backward()
    assert not isinstance(after.memory, streaming.HeldMemory)
    first = model.controller.weight_hh_l0.grad.clone()
    model.zero_grad()
    model(x[:1], state)[0].sum().backward()
    assert torch.equal(model.controller.weight_hh_l0.grad, first)


def test_copies_and_files_have_tensors_of_their_own(device):
    model = model_of("sdnc", device)
    x = torch.randn(4, 1, 3, device=device)
    with torch.no_grad():
        _, state = by_steps(model, x)
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        for copied in (copy.deepcopy(state), torch.load(file), state.clone(), state.to("cpu")):
            assert torch.equal(model(x[:1], copied.to(device))[0], model(x[:1], state)[0])
        with pytest.raises(AttributeError, match="has no nothing"):
            _ = state.memory.nothing
