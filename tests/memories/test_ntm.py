"""The NTM: the order of its interface, its start, and a head that walks along the memory."""

from __future__ import annotations

import torch
from torch.func import functional_call

from sparsam.memories.ntm import Heads, address


def test_starts_on_row_zero_of_a_constant_memory(make):
    state = make("ntm").initial_state(2)
    assert (state.memory == 1e-6).all()
    assert state.read_weights.sum() == 4 and (state.write_weights[..., 0] == 1).all()


def test_initial_read_words_are_learned(make):
    model = make("ntm")
    x = torch.randn(2, 2, 3, dtype=torch.float64)
    model(x)[0].sum().backward()
    assert model.initial_read.grad.abs().max() > 0

    def run(read):
        return functional_call(model, {"initial_read": read}, (x,))[0]

    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert torch.autograd.gradcheck(run, (torch.randn(2, 4, dtype=torch.float64, requires_grad=True),))


def test_a_kept_state_does_not_follow_the_parameter(make):
    model = make("ntm")
    state = model.initial_state(1)
    with torch.no_grad():
        model.initial_read.add_(1.0)
    assert (state.read == 0).all() and (model.initial_state(1).read == 1).all()


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def head(gate, taps, exponent, strength=1.0):
    return Heads(
        tensor(1.0, 0.0).view(1, 1, 2),
        tensor(strength).view(1, 1),
        tensor(gate).view(1, 1),
        tensor(*taps).view(1, 1, 3),
        tensor(exponent).view(1, 1),
    )


def test_a_head_walks_forward_from_its_last_row():
    words = torch.zeros(1, 5, 2, dtype=torch.float64)
    previous = torch.zeros(1, 1, 5, dtype=torch.float64)
    previous[..., 4] = 1.0
    walked = address(head(gate=0.0, taps=(0.0, 0.0, 1.0), exponent=2.0), words, previous)
    assert walked.flatten().tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]  # circular


def test_a_head_addresses_by_content():
    words = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    previous = torch.zeros(1, 1, 2, dtype=torch.float64)
    weights = address(head(gate=1.0, taps=(0.0, 1.0, 0.0), exponent=1.0, strength=2.0), words, previous)
    expected = torch.softmax(2.0 * tensor(0.0, 1.0 / (1.0 + 1e-6)), 0)
    torch.testing.assert_close(weights.flatten(), expected)


def test_interface_rows_are_in_the_documented_order(make):
    model = make("ntm", num_heads=1, word_size=2)
    vector = torch.arange(2 * 2 + 2 + 2 + 6 + 2 + 2 + 2, dtype=torch.float64)[None]
    readers, writers, erase, add = model.memory.heads_of(vector)
    assert readers.key.flatten().tolist() == [0, 1] and writers.key.flatten().tolist() == [2, 3]
    softplus = torch.nn.functional.softplus
    torch.testing.assert_close(writers.strength.flatten(), softplus(tensor(5.0)))
    torch.testing.assert_close(readers.gate.flatten(), torch.sigmoid(tensor(6.0)))
    torch.testing.assert_close(writers.taps.flatten(), torch.softmax(tensor(11.0, 12.0, 13.0), 0))
    torch.testing.assert_close(readers.exponent.flatten(), 1 + softplus(tensor(14.0)))
    torch.testing.assert_close(erase.flatten(), torch.sigmoid(tensor(16.0, 17.0)))
    assert add.flatten().tolist() == [18, 19]


def test_written_words_are_read_in_the_same_step(make):
    """Gates shut, no shift, sharp: both heads stay on row 0, so the read is the word after erase and add."""
    model = make("ntm", num_heads=1, word_size=2)
    with torch.no_grad():
        model.interface.weight.zero_()
        bias = model.interface.bias
        bias.zero_()
        bias[6:8] = -1e3  # gates
        bias[9] = bias[12] = 1e3  # stay
        bias[16:18] = 1e3  # erase all
        bias[18:20] = torch.tensor([0.25, -0.5])
    _, state = model(torch.randn(1, 1, 3, dtype=torch.float64))
    torch.testing.assert_close(state.read.flatten(), tensor(0.25, -0.5))
    rows, words = state.memory_rows(0)
    assert rows.tolist() == [0]
    torch.testing.assert_close(words[0], tensor(0.25, -0.5))
