"""The dense models' kernels against the reference: outputs, the state and all gradients.

Run by `../test_engine.py` in a process of its own: on a GPU where there is one, else by Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch

import sparsam
from benchmarks.resident import kept_bytes
from sparsam.engines.cuda.dense import program
from sparsam.engines.cuda.launch import interpreted

DEVICE = "cpu" if interpreted() else "cuda"
FIRST = dict(input_size=3, output_size=2, hidden_size=6, memory_size=9, word_size=5, num_heads=2)


def pair(name, seed=0, **sizes):
    """The same model twice: run by the kernels, and by the reference in float64."""
    torch.manual_seed(seed)
    model = sparsam.build(name, engine="cuda", **{**FIRST, **sizes}).to(DEVICE)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    reference = sparsam.build(name, engine="reference", **{**FIRST, **sizes}).to(DEVICE).double()
    reference.load_state_dict(model.state_dict())
    return model, reference


def filled(model, batch, seed):
    """A state whose fields are random: words, weights, usage and links, each of which wants a gradient."""
    generator = torch.Generator().manual_seed(seed)
    state, fields = model.initial_state(batch), {}
    for name, value in state.values():
        random = torch.rand(value.shape, generator=generator)
        if name in ("read_weights", "write_weights", "precedence"):
            random = random / random.sum(dim=-1, keepdim=True)
        elif name == "link":
            random = random / value.shape[-1] * (1 - torch.eye(value.shape[-1]))
        elif name != "usage":
            random = 2 * random - 1
        fields[name] = random.to(value.device, value.dtype).requires_grad_()
    return state.with_fields(**fields), [*fields.values()]


def results(model, x, lengths, state, given, seed):
    """Outputs and every field of the state over two calls, then the gradients of a loss over all of them."""
    generator = torch.Generator().manual_seed(seed)
    x = x.to(next(model.parameters()).dtype).requires_grad_()
    found, loss = [], 0.0
    for part, ends in zip(x.split(len(x) - len(x) // 3), lengths):
        y, state = model(part, state, lengths=ends)
        fields = [value for _, value in state.values()]
        found += [y, *(fields if given else [])]
        loss = loss + y.square().sum()
    for value in fields if given else []:
        weight = torch.randn(value.shape, generator=generator).to(value.device, value.dtype)
        if value.requires_grad:
            loss = loss + (value * weight).sum()
    return found, torch.autograd.grad(loss, [x, *model.parameters(), *given], allow_unused=True)


def compare(name, steps=4, batch=2, lengths=(None, None), seed=0, blank=False, **sizes):
    """From a random state, or from a blank one: then rows are alike, and only what is put out does not depend on which
    of them rounding takes for the least used.
    """
    model, reference = pair(name, seed, **sizes)
    x = torch.randn(steps, batch, FIRST["input_size"], device=DEVICE)
    found = []
    for each in (model, reference):
        state, given = (None, []) if blank else filled(each, batch, seed)
        found.append(results(each, x, lengths, state, given, seed))
    for ours, theirs in zip(*found):
        for one, other in zip(ours, theirs):
            assert (one is None) == (other is None)
            if other is not None:
                scale = max(1.0, float(other.detach().abs().max()))
                torch.testing.assert_close(one.double() / scale, other.double() / scale, rtol=2e-4, atol=2e-5)


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    """Every case is run by the kernels, forward and backward."""
    launched = []
    launch = program._launch
    monkeypatch.setattr(program, "_launch", lambda name, *rest: launched.append(name) or launch(name, *rest))
    yield launched
    assert {"forward", "backward"} <= set(launched)


@pytest.mark.parametrize("name", ["dam", "ntm", "dnc"])
def test_outputs_states_and_gradients(name):
    compare(name)


@pytest.mark.parametrize("name,controller", [("dam", "gru"), ("ntm", "feedforward"), ("dnc", "gru")])
def test_other_controllers(name, controller):
    compare(name, steps=3, controller=controller)


@pytest.mark.parametrize("name", ["dam", "ntm", "dnc"])
def test_lengths(name):
    compare(name, batch=3, lengths=(torch.tensor([3, 1, 2]), torch.tensor([1, 1, 1])))


@pytest.mark.parametrize("name", ["dam", "ntm", "dnc"])
def test_a_blank_memory(name):
    compare(name, blank=True)


@pytest.mark.parametrize("similarity", ["euclidean", "dot"])
def test_other_similarities(similarity):
    compare("dam", steps=2, similarity=similarity)


@pytest.mark.parametrize("name", ["dam", "ntm", "dnc"])
@pytest.mark.parametrize("seed", range(1 if interpreted() else 5))
def test_random_sizes(name, seed):
    generator = torch.Generator().manual_seed(seed)

    def between(low, high):
        return int(torch.randint(low, high + 1, (), generator=generator))

    rows = between(1, 40)
    sizes = dict(
        hidden_size=between(1, 40),
        memory_size=rows,
        word_size=between(1, 20),
        num_heads=between(1, min(rows, 5)),
    )
    compare(name, steps=between(1, 4), batch=between(1, 3), seed=seed, **sizes)


def test_a_second_backward_pass(by_kernels):
    model, _ = pair("dam")
    x = torch.randn(4, 2, 3, device=DEVICE)
    loss = model(x)[0].square().sum()
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, list(model.parameters()))):
        assert torch.equal(one, other)
    assert by_kernels.count("forward") == 1


@pytest.mark.parametrize("name", ["dnc"])
def test_long_sequences_without_gradients_have_a_short_tape(name, monkeypatch, by_kernels):
    model, _ = pair(name)
    x, lengths = torch.eye(3, device=DEVICE)[torch.randint(3, (5, 2))], torch.tensor([5, 1])
    y, state = model(x, lengths=lengths)  # one-hot: torch's product of all inputs is exact, however many there are
    y.sum().backward()
    monkeypatch.setattr(program, "PIECE", 2)
    with torch.no_grad():
        parts, after = model(x, lengths=lengths)
    assert by_kernels.count("forward") == 1 + 3
    assert torch.equal(parts, y)
    for (_, one), (_, other) in zip(after.values(), state.values()):
        assert torch.equal(one, other)


def test_the_tape_is_what_the_paper_says_dense_models_keep():
    """N W numbers a step and more: twice the words, nearly twice the tape."""
    kept = []
    for rows in (16, 32):
        model, _ = pair("dam", memory_size=rows)
        y, _ = model(torch.randn(4, 2, 3, device=DEVICE))
        kept.append(kept_bytes(y))
        y.sum().backward()
    assert 1.3 < kept[1] / kept[0] < 2
