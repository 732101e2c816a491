"""Tickets: a state as ten numbers, which containers may index, join, cast and zero."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import sparsam
from sparsam import tickets

SIZES = {"input_size": 4, "output_size": 3, "hidden_size": 8, "memory_size": 32, "word_size": 5, "num_heads": 2}
BUILDS = [("sam", {}), ("sam", {"engine": "reference"}), ("sdnc", {}), ("ntm", {}), ("dam", {}), ("dnc", {})]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(tickets, "TABLE", table := tickets.Table())
    return table


def ran(name="sam", **options):
    torch.manual_seed(0)
    model = sparsam.build(name, **{**SIZES, **options})
    return model, model(torch.randn(7, 5, 4))[1].detach(), torch.randn(6, 5, 4)


@pytest.mark.parametrize(("name", "options"), BUILDS)
def test_a_ticket_stands_for_its_state(name, options):
    model, state, x = ran(name, **options)
    assert torch.equal(model(x, state.ticket())[0], model(x, state)[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_any_floating_type_holds_it(dtype):
    model, state, x = ran()
    assert torch.equal(model(x, state.ticket().to(dtype))[0], model(x, state)[0])


def test_rows_of_tickets_are_batch_elements():
    model, state, x = ran()
    later = model(x, state)[1].detach()
    first, second = state.ticket(), later.ticket()
    mixed = torch.cat([second[3:], first[1:2], first[:1], second[2:3]])
    expected = sparsam.cat([later[3:], state[[1, 0]], later[2:3]])
    assert torch.equal(model(x, mixed)[0], model(x, expected)[0])


def test_times_one_minus_done_starts_anew():
    model, state, x = ran()
    done = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])
    reset = (1 - done)[:, None] * state.ticket()
    assert torch.equal(model(x, reset)[0], model(x, state.reset(done.bool()))[0])
    assert torch.equal(model(x, torch.zeros(5, tickets.WIDTH))[0], model(x)[0])


def test_as_h_and_c_of_an_lstm():
    model, state, x = ran()
    h, c = tickets.lstm_shaped(state)
    assert h.shape == c.shape == (1, 5, tickets.WIDTH)
    assert torch.equal(model(x, (h, c))[0], model(x, state)[0])
    with pytest.raises(ValueError, match="h and c of one step"):
        model(x, (h, torch.zeros_like(c)))


def test_the_baseline_takes_tickets_and_its_own_h_and_c():
    model = sparsam.LSTM(4, 3, hidden_size=tickets.WIDTH)
    x = torch.randn(6, 5, 4)
    state = model(x)[1].detach()
    expected = model(x, state)[0]
    assert torch.equal(model(x, state.ticket())[0], expected)
    assert torch.equal(model(x, (state.hidden[None], state.cell[None]))[0], expected)


def test_what_is_no_ticket_is_refused():
    model, state, x = ran()
    ticket = state.ticket()
    for wrong in (ticket * 0.5, ticket + 1, -ticket, ticket.flip(1), torch.randn(5, tickets.WIDTH), ticket * torch.nan):
        with pytest.raises(ValueError, match=r"tickets as state.ticket\(\) returned them"):
            model(x, wrong)
    for wrong in (ticket[:, :9], ticket[None], ticket[0]):
        with pytest.raises(ValueError, match="shape"):
            model(x, wrong)
    with pytest.raises(ValueError, match="batch size"):
        model(x, ticket[:3])


def test_a_ticket_of_another_model_is_refused():
    _, state, x = ran("sdnc")
    with pytest.raises(TypeError, match="expected a SAMState"):
        sparsam.SAM(**SIZES)(x, state.ticket())


def test_the_table_keeps_the_states_used_last(table):
    model, state, x = ran()
    table.most = 3
    kept = [state.clone().ticket() for _ in range(3)]
    model(x, kept[0])  # now used last
    state.clone().ticket()
    assert len(table.states) == 3
    model(x, kept[0])
    with pytest.raises(ValueError, match=r"the 3 states used last.*keep"):
        model(x, kept[1])


def test_keep_says_and_sets_how_many(table):
    assert tickets.keep() == 4096
    assert tickets.keep(2) == 2 == table.most
    with pytest.raises(ValueError, match="states: expected"):
        tickets.keep(0)


def test_the_state_in_the_table_holds_no_graph():
    model, _, x = ran()
    state = model(x)[1]
    assert state.hidden.requires_grad
    ticket = state.ticket()
    assert not ticket.requires_grad
    assert not tickets.redeem(ticket, model.initial_state).hidden.requires_grad


def test_another_process_refuses_them():
    state = ran()[1]
    code = (
        "import sparsam, torch; m = sparsam.SAM(4, 3, memory_size=32, word_size=5)\n"
        f"m(torch.randn(2, 5, 4), torch.tensor({state.ticket().tolist()}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert run.returncode != 0 and "of this process, got one of another" in run.stderr and "pack" in run.stderr


def test_a_new_process_begins_numbers_of_its_own():
    table = tickets.Table()
    state = ran()[1]
    before = table.put(state)
    table.begin()
    after = table.put(state)
    assert not (before == after).all(axis=1).any()


def test_a_million_tickets_do_not_repeat():
    table = tickets.Table(most=1)
    table.next = 2**32 - 2
    state = ran()[1][:1]
    seen = {table.put(state).tobytes() for _ in range(6)}
    assert len(seen) == 6


def test_a_graph_that_is_traced_gets_no_tickets(monkeypatch):
    model, state, x = ran()
    ticket = state.ticket()
    assert torch.equal(model(x, model.state_of(ticket))[0], model(x, state)[0])
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(TypeError, match=r"state_of\(ticket\)"):
        model.state_of(ticket)
