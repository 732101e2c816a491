"""A type checker knows the state of each model: `make types` checks this file, pytest runs it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import assert_type

import sparsam
from sparsam.layer import SparseMemoryState
from sparsam.memories.dam import DAMState
from sparsam.memories.dnc import DNCState
from sparsam.memories.ntm import NTMState
from sparsam.memories.sam import SAMState
from sparsam.memories.sdnc import SDNCState
from sparsam.models import LSTMState, MemoryModel
from sparsam.models.contract import Recurrent
from sparsam.state import State, Store
from sparsam.trace import Trace

SIZES: dict[str, Any] = {"hidden_size": 4, "memory_size": 16, "word_size": 4, "num_heads": 1}


def test_a_call_gives_outputs_and_the_models_own_state() -> None:
    x = torch.zeros(2, 3, 2)
    sam, sdnc, dam = sparsam.SAM(2, 2, **SIZES), sparsam.SDNC(2, 2, **SIZES), sparsam.DAM(2, 2, **SIZES)
    ntm, dnc, lstm = sparsam.NTM(2, 2, **SIZES), sparsam.DNC(2, 2, **SIZES), sparsam.LSTM(2, 2, hidden_size=4)
    layer = sparsam.SparseMemory(2, memory_size=16, word_size=4, num_heads=1)
    y, state = sam(x)
    assert_type(y, Tensor)
    assert_type(state, SAMState)
    assert_type(sdnc(x)[1], SDNCState)
    assert_type(dam(x)[1], DAMState)
    assert_type(ntm(x)[1], NTMState)
    assert_type(dnc(x)[1], DNCState)
    assert_type(lstm(x)[1], LSTMState)
    assert_type(layer(x)[1], SparseMemoryState)
    assert_type(sparsam.build("sam", input_size=2, output_size=2, **SIZES)(x)[1], State)
    kinds = [type(model(x)[1]) for model in (sam, sdnc, dam, ntm, dnc, lstm, layer)]
    assert kinds == [SAMState, SDNCState, DAMState, NTMState, DNCState, LSTMState, SparseMemoryState]


def test_what_is_made_of_a_state_has_its_type() -> None:
    sam = sparsam.SAM(2, 2, **SIZES)
    _, state = sam(torch.zeros(2, 3, 2))
    assert_type(state.hidden, Tensor | None)
    assert_type(state.read_rows, Tensor)
    assert_type(state.memory, Store)
    assert_type(sam.trace(torch.zeros(2, 3, 2), state), Trace)
    made = [
        assert_type(state.detach(), SAMState),
        assert_type(state.reset(torch.ones(3, dtype=torch.bool)), SAMState),
        assert_type(state[0], SAMState),
        assert_type(state.to("cpu"), SAMState),
        assert_type(state.to(torch.float64), SAMState),
        assert_type(state.to(engine="reference"), SAMState),
        assert_type(sparsam.cat([state, state]), SAMState),
        assert_type(sam.initial_state(3), SAMState),
        assert_type(sam.state_of(state.ticket()), SAMState),
        assert_type(sam.unpack(state.pack(rows=16)), SAMState),
    ]
    assert {type(each) for each in made} == {SAMState}


def test_what_is_loaded_is_a_model() -> None:
    model = assert_type(sparsam.load("copy-sam"), MemoryModel[State])
    assert isinstance(model, MemoryModel)
    assert assert_type(model.initial_state(2), State).batch_size == 2


def test_a_constructor_says_what_it_makes() -> None:
    """Pyright, and so many an editor, takes a class whose `__new__` returns Any for a function that returns Any."""
    assert Recurrent.__new__.__annotations__["return"] == "Self"
