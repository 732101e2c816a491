"""SAM against its definition in plain loops, and its special cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sparsam
from tests import oracle
from tests.beside import examples


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("blank", [True, False])
def test_equals_its_definition(make, engine, similarity, blank):
    model = make("sam", engine=engine, similarity=similarity, memory_size=11)
    x = torch.randn(12, 2, 3, dtype=torch.float64)
    memory = None if blank else torch.randn(2, 11, 4, dtype=torch.float64)
    y, state = model(2 * x, model.initial_state(2, initial_memory=memory))
    for b in range(2):
        start = None if memory is None else memory[b]
        expected, plain = oracle.run(model, 2 * x[:, b], start)
        torch.testing.assert_close(y[:, b], expected, rtol=1e-8, atol=1e-10)
        assert state.read_rows[b].tolist() == plain.rows
        rows, words = state.memory_rows(b)
        torch.testing.assert_close(words, plain.words[rows].detach(), rtol=1e-8, atol=1e-10)
        before = torch.zeros_like(plain.words) if start is None else start
        assert rows.tolist() == (plain.words != before).any(1).nonzero().flatten().tolist()


@examples(25)
@given(seed=st.integers(0, 10_000), delta=st.sampled_from([0.0, 0.005, 0.2, 1.0]), heads=st.integers(1, 3))
def test_writes_to_the_least_recently_accessed_rows(seed, delta, heads):
    """U^(2): steps since an access above delta, from a list of all weights ever; ties to the lowest row."""
    torch.manual_seed(seed)
    size, steps = 7, 10
    model = sparsam.SAM(
        2, 1, 3, memory_size=size, word_size=3, num_heads=heads, k=2, delta=delta, engine="reference"
    ).double()
    with torch.no_grad():
        model.interface.weight.mul_(8)
    trace = model.trace(torch.randn(steps, 1, 2, dtype=torch.float64))
    history = np.zeros((steps, size))
    np.add.at(history, (trace.time.numpy(), trace.row.numpy()), trace.weight.numpy())
    writes, reads = trace.writes(), trace.reads()
    for t in range(steps):
        last = [max([s for s in range(t) if history[s, row] > delta], default=-1) for row in range(size)]
        unused = sorted(range(size), key=lambda row: (last[row], row))[:heads]
        for h in range(heads):
            *previous, fresh = writes.row[(writes.time == t) & (writes.head == h)].tolist()
            assert fresh == unused[h]  # the last entry of a head's write is its unused row
            assert previous == reads.row[(reads.time == t - 1) & (reads.head == h)].tolist()


def test_unused_rows_are_erased_even_when_nothing_is_written(make, engine):
    model = make("sam", engine=engine, num_heads=1)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias[2 * 4 + 1] = -1e3  # alpha = 0
    memory = torch.randn(9, 4, dtype=torch.float64)
    _, state = model(torch.zeros(1, 1, 3, dtype=torch.float64), model.initial_state(1, initial_memory=memory))
    rows, words = state.memory_rows(0)
    assert rows.tolist() == [0] and words.abs().max() < 1e-200


def test_equal_words_tie_to_the_lowest_rows(make, engine):
    model = make("sam", engine=engine, num_heads=1, memory_size=30)
    memory = torch.randn(1, 4, dtype=torch.float64).expand(30, 4)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias[:4] = memory[0]  # the query is the word that all rows but the erased row 0 hold
        model.interface.bias[4:8] = -memory[0]
    _, state = model(torch.zeros(1, 1, 3, dtype=torch.float64), model.initial_state(1, initial_memory=memory))
    assert state.read_rows[0, 0].tolist() == [1, 2, 3]
    torch.testing.assert_close(state.read_weights[0, 0], torch.full((3,), 1 / 3, dtype=torch.float64))


def test_blank_words_can_be_read(make, engine):
    model = make("sam", engine=engine, num_heads=1, k=9)
    _, state = model(torch.zeros(1, 1, 3, dtype=torch.float64))
    assert sorted(state.read_rows[0, 0].tolist()) == list(range(9))


def test_one_word_one_head(make, engine):
    model = make("sam", engine=engine, memory_size=1, num_heads=1, k=1)
    _, state = model(torch.randn(4, 2, 3, dtype=torch.float64))
    torch.testing.assert_close(state.read_weights, torch.ones(2, 1, 1, dtype=torch.float64))
