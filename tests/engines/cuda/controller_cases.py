"""Every controller, and none, with the memories of the GPU engine: outputs and all gradients are the reference's.

`test_engine.py` runs these in a process of their own, as it does `sequence_cases.py`.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sparsam
from sparsam.engines.cuda import steps
from sparsam.engines.cuda.dense import sequence
from sparsam.engines.cuda.launch import interpreted

SIZES = dict(input_size=3, output_size=2, hidden_size=4, memory_size=12, word_size=4, num_heads=2, k=2)
READS = 2 * 4


class Running(nn.Module):
    """A user's own controller that carries something."""

    output_size = 4

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3 + READS, 4)

    def initial_state(self, batch_size):
        return {"sum": self.inner.weight.new_zeros(batch_size, 4)}

    def forward(self, x, state):
        total = 0.5 * state["sum"] + torch.tanh(self.inner(x))
        return total, {"sum": total}


CONTROLLERS = {
    "lstm": lambda: "lstm",
    "gru": lambda: "gru",
    "feedforward": lambda: "feedforward",
    "two layers": lambda: nn.LSTM(3 + READS, 4, num_layers=2),
    "own": Running,
    "mlp": lambda: nn.Sequential(nn.Linear(3 + READS, 5), nn.ReLU(), nn.Linear(5, 4)),
}


@pytest.fixture
def device():
    return "cpu" if interpreted() else "cuda"


def results(model, x, memory):
    """Two calls, the second of unequal lengths; the gradients of all parameters, the input and the first words."""
    state = model.initial_state(2, initial_memory=memory)
    first, state = model(x[:2], state)
    second, state = model(x[2:], state, lengths=torch.tensor([2, 1]))
    loss = first.square().sum() + second.sum() + state.read.sum()
    gradients = torch.autograd.grad(loss, [x, memory, *model.parameters()])
    return [first, second, *(g.to_dense() if g.is_sparse else g for g in gradients)]


def compare(make, device):
    found = []
    for engine in ("cuda", "reference"):
        torch.manual_seed(1)
        model = make(engine).to(device)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 2  # far from the even weights of a fresh model
        torch.manual_seed(2)
        x = torch.randn(4, 2, 3, device=device, requires_grad=True)
        memory = torch.randn(12, 4, device=device, requires_grad=True)
        found.append(results(model, x, memory))
        assert model.engine_used == engine
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_controller_with_every_memory(name, controller, device):
    compare(lambda engine: sparsam.build(name, **SIZES, engine=engine, controller=CONTROLLERS[controller]()), device)


@pytest.mark.parametrize("links", [0, 3])
def test_the_layer(links, device):
    sizes = dict(memory_size=12, word_size=4, num_heads=2, k=2, links=links)
    compare(lambda engine: sparsam.SparseMemory(3, 2, **sizes, engine=engine), device)


# Those that run inside the kernels are compared in `dense/program_cases.py`; a GPU has graphs for them as well.
@pytest.mark.parametrize("controller", ["own"] if interpreted() else ["lstm", "gru", "feedforward", "own"])
@pytest.mark.parametrize("kernels", [True] if interpreted() else [True, False])
@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_dense_memories(name, kernels, controller, device, monkeypatch):
    if not kernels:
        monkeypatch.setattr(sequence, "has_kernel", lambda *_: False)
    sizes = {key: value for key, value in SIZES.items() if key != "k"}
    compare(lambda engine: sparsam.build(name, **sizes, engine=engine, controller=CONTROLLERS[controller]()), device)


@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_a_dense_memory_that_no_program_holds(name, device):
    sizes = dict(input_size=3, output_size=2, hidden_size=4, memory_size=600, word_size=32, num_heads=2)
    if interpreted():
        with pytest.raises(RuntimeError, match="Triton's interpreter has no CUDA graphs"):
            sparsam.build(name, **sizes, engine="cuda")(torch.zeros(1, 1, 3))
    else:
        results = []
        for engine in ("cuda", "reference"):
            torch.manual_seed(0)
            model = sparsam.build(name, **sizes, engine=engine).to(device)
            results.append(model(torch.ones(3, 1, 3, device=device))[0])
        torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("controller", ["lstm", "gru", "feedforward"])
def test_what_flows_backward_is_limited_alike(controller, stepwise, device, monkeypatch):
    monkeypatch.setattr(steps, "pays_backward", lambda batch: stepwise)
    settings = dict(controller=controller, backward_clip=0.05)
    compare(lambda engine: sparsam.build("sam", **SIZES, engine=engine, **settings), device)
