"""Detached states can be copied and sent, traces are in order of time, and other small things that once were not so."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import sparsam
from sparsam.engines.cuda import engine as cuda

SIZES = {"input_size": 3, "output_size": 2, "hidden_size": 4, "memory_size": 9, "word_size": 4, "num_heads": 2}
MEMORIES = ("ntm", "dam", "dnc", "sam", "sdnc")


def tensors(state):
    """All tensors of a state and of the state it began from, stores included."""
    for part in (state, state.origin):
        for _, value in part.values():
            yield from [value] if isinstance(value, torch.Tensor) else getattr(value, "tensors", dict)().values()


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("learned", [False, True])
def test_a_detached_state_can_be_copied_and_sent(name, learned):
    """The start of an NTM is a parameter, and so may be the memory that any model begins from."""
    model = sparsam.build(name, **SIZES)
    memory = torch.nn.Parameter(torch.randn(9, 4)) if learned else None
    x = torch.randn(3, 2, 3)
    for state in (model.initial_state(2, memory), model(x, model.initial_state(2, memory))[1]):
        state = state.detach()
        assert not any(tensor.requires_grad for tensor in tensors(state))
        expected = model(x, state)[0]
        for again in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
            assert torch.equal(model(x, again)[0], expected)
            assert torch.equal(model(x, again.reset(torch.tensor([True, True])))[0], model(x, state.origin)[0])


@pytest.mark.parametrize(
    ("name", "engine"), [("sam", "native"), ("sdnc", "native"), ("sam", "reference"), ("ntm", "auto")]
)
def test_traces_are_in_order_of_time(name, engine):
    model = sparsam.build(name, **SIZES, engine=engine)
    trace = model.trace(torch.randn(6, 2, 3), lengths=torch.tensor([6, 3]))
    assert len(trace.time) > 0 and bool((trace.time.diff() >= 0).all())


def test_the_second_derivative_of_dam_is_finite_on_a_blank_memory():
    torch.manual_seed(0)
    model = sparsam.DAM(**SIZES).double()
    x = torch.randn(3, 2, 3, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert bool(torch.isfinite(second).all())


def test_the_gpu_engine_says_how_many_links_it_has_room_for(monkeypatch):
    model = sparsam.SDNC(**{**SIZES, "memory_size": 500}, k_links=cuda.MOST_LINKS + 1)
    monkeypatch.setattr(cuda, "interpreted", lambda: True)
    monkeypatch.setattr(cuda, "why_no_triton", lambda: None)
    reason = cuda.CudaEngine().why_not(model.memory, model.output.weight, True)
    assert reason is not None and f"room for {cuda.MOST_LINKS} links" in reason


JOINED = {
    "ntm": {},
    "dam": {},
    "dnc": {},
    "dnc masked": {"masked": True},
    "sam": {},
    "sam masked": {"masked": True},
    "sdnc": {"link_gradients": True},
    "sdnc free": {"allocation": "free"},
}


@pytest.mark.parametrize("kind", JOINED)
@pytest.mark.parametrize("cut", [0, 1, None], ids=["detached-first", "detached-second", "both-attached"])
@pytest.mark.parametrize("change", ["", "indexed", "reset"])
def test_a_joined_state_keeps_the_gradient_of_each_part(make, kind, cut, change):
    """`joined` shares what all elements share; a detached copy has the same numbers and no gradient."""
    model = make(kind.split()[0], **JOINED[kind])
    start = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    states = [model.initial_state(2, initial_memory=start)] * 2
    if cut is not None:
        states[cut] = states[cut].detach()
    found = []
    for together in (True, False):
        parts, inputs = ([sparsam.cat(states)], [x]) if together else (states, x.split(2, dim=1))
        if change == "indexed":
            parts, inputs = [part[::2] for part in parts], [part[:, ::2] for part in inputs]
        if change == "reset":
            parts = [model(v, part)[1] for v, part in zip(inputs, parts)]
            parts = [part.reset(torch.ones(len(part), dtype=torch.bool)) for part in parts]
        y = torch.cat([model(v, part)[0] for v, part in zip(inputs, parts)], dim=1)
        (gradient,) = torch.autograd.grad(y.square().sum(), start)
        assert gradient.count_nonzero() > 0
        found.append((y, gradient))
    torch.testing.assert_close(*found)
