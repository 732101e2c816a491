"""The GPU engine against the reference: on a GPU where there is one, else by Triton's interpreter on the CPU.

`test_engine.py` runs these in a process of their own, since Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import copy

import pytest
import torch

import sparsam
from sparsam.engines.cuda.launch import interpreted
from sparsam.engines.cuda.memory import CudaMemory

SIZES = dict(input_size=3, output_size=2, hidden_size=6, memory_size=14, word_size=5, num_heads=2, k=2, start="plain")


@pytest.fixture
def device():
    return "cpu" if interpreted() else "cuda"


def dense(memory):
    return memory.dense() if isinstance(memory, CudaMemory) else memory


def pair(name: str, device: str, **settings):
    torch.manual_seed(1)
    reference = sparsam.build(name, engine="reference", **(SIZES | settings)).to(device)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter *= 3  # far from the even weights of a fresh model
    kernels = sparsam.build(name, engine="cuda", **(SIZES | settings)).to(device)
    kernels.load_state_dict(reference.state_dict())
    return reference, kernels


def run(model, x, device, lengths=None, memory=None):
    """Two calls, the second going on from the first; every kind of output takes part in the loss."""
    x = x.clone().to(device).requires_grad_()
    state = model.initial_state(x.shape[1], initial_memory=memory)
    half = x.shape[0] // 2
    if lengths is None:
        first, state = model(x[:half], state)
        second, state = model(x[half:], state)
        y = torch.cat([first, second])
    else:
        y, state = model(x, state, lengths=lengths)
    weights = torch.linspace(-1, 1, y.numel(), device=device).view_as(y)
    loss = (y * weights).sum() + dense(state.memory).words.square().sum() + state.hidden.sum() + state.cell.sum()
    loss = loss + state.read.square().sum() + (state.read_weights * torch.arange(float(model.k), device=device)).sum()
    loss.backward()
    gradients = [x.grad, *(parameter.grad for parameter in model.parameters())]
    return y, state, gradients if memory is None else [*gradients, memory.grad]


def assert_same(found, expected):
    (y, state, gradients), (their_y, their_state, their_gradients) = found, expected
    torch.testing.assert_close(y, their_y, rtol=1e-4, atol=1e-5)
    assert torch.equal(state.read_rows, their_state.read_rows)
    torch.testing.assert_close(state.read_weights, their_state.read_weights, rtol=1e-4, atol=1e-5)
    memory, their_memory = dense(state.memory), dense(their_state.memory)
    torch.testing.assert_close(memory.words, their_memory.words, rtol=1e-4, atol=1e-5)
    assert torch.equal(memory.last_access, their_memory.last_access)
    assert torch.equal(memory.clock, their_memory.clock)
    for gradient, theirs in zip(gradients, their_gradients, strict=True):
        torch.testing.assert_close(gradient, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name,similarity", [("sam", "cosine"), ("sdnc", "cosine"), ("sam", "euclidean"), ("sam", "dot")]
)
def test_outputs_states_and_gradients_are_the_references(name, similarity, device):
    reference, kernels = pair(name, device, similarity=similarity, **({"k_links": 3} if name == "sdnc" else {}))
    x = torch.randn(6, 2, 3)
    found, expected = run(kernels, x, device), run(reference, x, device)
    assert_same(found, expected)
    if name == "sdnc":
        assert_same_links(found[1].links, expected[1].links)


def assert_same_links(found, expected):
    for columns, weights, dense in (
        (found.predecessor_columns, found.predecessor_weights, expected.predecessors),
        (found.successor_columns, found.successor_weights, expected.successors),
        (found.precedence_columns, found.precedence_weights, expected.precedence),
    ):
        columns, weights = (
            value[..., : dense.shape[1], :] if value.dim() == 3 else value for value in (columns, weights)
        )
        scattered = torch.zeros_like(dense).scatter_add(-1, columns.clamp_min(0).long(), weights * (columns >= 0))
        torch.testing.assert_close(scattered, dense, rtol=1e-4, atol=1e-6)
        assert int((columns >= 0).sum(-1).max()) <= 3


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_padding_changes_nothing(name, device):
    # Words that one head writes in a step are parallel, and rounding alone would rank their cosines.
    reference, kernels = pair(name, device, num_heads=1, k=3, similarity="dot")
    x, lengths = torch.randn(5, 3, 3), torch.tensor([5, 1, 3])
    found = run(kernels, x, device, lengths)
    assert_same(found, run(reference, x, device, lengths))
    assert torch.equal(found[0][1:, 1], torch.zeros(4, 2, device=device))


def test_an_initial_memory_gets_its_gradient(device):
    reference, kernels = pair("sam", device)
    memory = torch.randn(2, 14, 5)
    ours = memory.clone().to(device).requires_grad_()
    theirs = memory.clone().to(device).requires_grad_()
    x = torch.randn(4, 2, 3)
    assert_same(run(kernels, x, device, memory=ours), run(reference, x, device, memory=theirs))


@pytest.mark.parametrize(
    "settings", [{"memory_size": 7}, {"num_heads": 1, "k": 3, "memory_size": 5}, {"num_heads": 3, "memory_size": 9}]
)
def test_free_gates_choose_the_references_rows(settings, device):
    """Long enough for words to be freed and written again; the gates learn."""
    reference, kernels = pair("sdnc", device, allocation="free", k_links=3, **settings)
    x = torch.randn(6, 2, 3)
    found, expected = run(kernels, x, device), run(reference, x, device)
    assert_same(found, expected)
    torch.testing.assert_close(dense(found[1].memory).usage, expected[1].memory.usage, rtol=1e-4, atol=1e-6)
    gates = slice(reference.memory.interface.offsets()["free_gates"], None)
    names = [name for name, _ in reference.named_parameters()]
    assert float(expected[2][1 + names.index("interface.weight")][gates].abs().max()) > 0


@pytest.mark.parametrize(
    "settings",
    [{"k_links": 3}, {"k_links": 8, "num_heads": 1, "k": 3}, {"k_links": 2, "memory_size": 8, "allocation": "free"}],
)
def test_links_have_the_references_gradients(settings, device):
    """From call to call too: `run` makes two. With few links some are dropped, with few words rows come back."""
    reference, kernels = pair("sdnc", device, link_gradients=True, **settings)
    x = torch.randn(8, 2, 3)
    found, expected = run(kernels, x, device), run(reference, x, device)
    assert_same(found, expected)
    plain, _ = pair("sdnc", device, **settings)
    without = run(plain, x, device)[2]
    assert any(not torch.allclose(a, b, rtol=1e-2) for a, b in zip(expected[2], without))  # they do matter


def test_links_with_gradients_go_to_and_come_from_the_reference(device):
    model, _ = pair("sdnc", device, link_gradients=True, k_links=3)
    x = torch.randn(6, 2, 3, device=device)
    results = []
    for engines in (("reference", "reference"), ("reference", "cuda"), ("cuda", "reference")):
        model.engine = engines[0]
        _, state = model(x[:3])
        model.engine = engines[1]
        y, state = model(x[3:], state.to(engine=engines[1]))
        loss = y.square().sum() + state.to(engine="reference").links.successors.square().sum()
        results.append([y, *torch.autograd.grad(loss, list(model.parameters()))])
    for found in results[1:]:
        for ours, theirs in zip(found, results[0]):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_free_gates_with_padding_and_states_of_the_reference(device):
    reference, kernels = pair("sdnc", device, allocation="free", num_heads=1, k=3, similarity="dot")
    x, lengths = torch.randn(5, 3, 3), torch.tensor([5, 1, 3])
    assert_same(run(kernels, x, device, lengths), run(reference, x, device, lengths))
    x = x[:3, :2].to(device)
    with torch.no_grad():
        _, state = reference(x)
        torch.testing.assert_close(kernels(x, state.to(engine="cuda"))[0], reference(x, state)[0], rtol=1e-4, atol=1e-5)
        _, ours = kernels(x)
        torch.testing.assert_close(
            reference(x, ours.to(engine="reference"))[0], reference(x, state)[0], rtol=1e-4, atol=1e-5
        )


def test_an_old_state_is_still_a_value(device):
    _, kernels = pair("sdnc", device)
    x = torch.randn(3, 1, 3, device=device)
    with torch.no_grad():
        _, state = kernels(x)
        words = state.memory.words.clone()
        first, _ = kernels(x, state)
        kernels(2 * x, state)
        again, _ = kernels(x, state)
    assert torch.equal(first, again) and torch.equal(state.memory.words, words)


def test_a_state_of_the_reference_goes_on(device):
    reference, kernels = pair("sam", device)
    x = torch.randn(4, 2, 3, device=device)
    with torch.no_grad():
        _, state = reference(x)
        torch.testing.assert_close(kernels(x, state.to(engine="cuda"))[0], reference(x, state)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name,settings", [("sam", {}), ("sdnc", {"allocation": "free", "memory_size": 6})])
def test_the_trace_is_the_references(name, settings, device):
    reference, kernels = pair(name, device, **settings)
    x = torch.randn(4, 2, 3, device=device)
    found, expected = kernels.trace(x), reference.trace(x)

    def entries(trace):
        at = (trace.time, trace.batch, trace.head, trace.row, trace.kind)
        return dict(zip(zip(*(column.tolist() for column in at)), trace.weight.tolist()))

    ours, theirs = entries(found), entries(expected)
    assert set(ours) == set(theirs)
    assert all(abs(ours[key] - theirs[key]) < 1e-4 for key in theirs)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_resets_inside_a_sequence_are_the_references(name, device):
    reference, kernels = pair(name, device, num_heads=1, k=3, similarity="dot")
    x, resets = torch.randn(4, 3, 3), torch.zeros(4, 3, dtype=torch.bool)
    resets[2, 1] = resets[0, 2] = resets[3, 0] = True
    lengths, results = torch.tensor([4, 3, 2]), []
    for model in (kernels, reference):
        y, state = model(x.to(device), lengths=lengths, resets=resets)
        loss = y.square().sum() + state.read.square().sum() + dense(state.memory).words.square().sum()
        results.append([y, state.read_weights, *torch.autograd.grad(loss, list(model.parameters()))])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_follows_float32(dtype, device):
    """Weights and activations in half precision, the memory in float32."""
    _, kernels = pair("sam", device, similarity="dot")
    rounded = copy.deepcopy(kernels).to(dtype)
    plain = copy.deepcopy(rounded).to(torch.float32)
    x = torch.randn(4, 2, 3, device=device).to(dtype)
    results = []
    for model, given in ((rounded, x), (plain, x.float())):
        y, state = model(given)
        gradients = torch.autograd.grad(y.float().square().sum(), list(model.parameters()))
        results.append([y, state.hidden, *gradients])
        assert y.dtype == state.hidden.dtype == given.dtype and state.memory.words.dtype == torch.float32
        with torch.no_grad():
            model(given[:1], state.detach())  # one step, from there
    for ours, theirs in zip(*results):
        assert float((ours.float() - theirs).detach().norm() / theirs.detach().norm()) < 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_takes_what_lstm_takes(dtype, device):
    """x of any type and y in autocast's; states, memory and gradients stay in float32."""
    _, kernels = pair("sam", device)
    x = torch.randn(3, 2, 3, device=device)
    expected, _ = kernels(x)
    for given in (x, x.to(dtype)):
        with torch.autocast(device, dtype):
            y, state = kernels(given)
            again, state = kernels(given, state, lengths=torch.tensor([2, 3]))
        assert y.dtype == again.dtype == dtype
        assert state.hidden.dtype == state.read.dtype == state.memory.words.dtype == torch.float32
        torch.testing.assert_close(y.float(), expected, rtol=0.05, atol=0.05)
    again.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in kernels.parameters())


def test_it_runs_backward_more_than_once(device):
    _, kernels = pair("sam", device)
    y, _ = kernels(torch.randn(2, 1, 3, device=device))
    weight = kernels.controller.weight_hh_l0
    once = torch.autograd.grad(y.sum(), weight, retain_graph=True)[0]
    assert torch.equal(once, torch.autograd.grad(y.sum(), weight)[0])


@pytest.mark.parametrize(
    "name,settings,reason",
    [
        ("sam", {"index": "kdtree"}, "scans"),
        ("sam", {"masked": True}, "masked"),
        ("sam", {"num_heads": 8, "k": 14}, "too large together"),
    ],
)
def test_what_it_cannot_run_it_names(name, settings, reason, device):
    model = sparsam.build(name, engine="cuda", **(SIZES | settings)).to(device)
    with pytest.raises(RuntimeError, match=reason):
        model(torch.zeros(1, 1, 3, device=device))


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_a_start_that_somebody_changed_is_not_used_again(name, device):
    _, model = pair(name, device)
    x = torch.randn(2, 2, 3, device=device)
    with torch.no_grad():
        y, state = model(x)
        again, other = model(x)
        assert torch.equal(y, again) and other.start.read is state.start.read
        other.start.read.add_(1)
        again, other = model(x)
        assert torch.equal(y, again) and other.start.read is not state.start.read
        assert model.initial_state(2).read is not model.initial_state(2).read  # what a user gets is the user's
    with torch.inference_mode():
        _, inside = model(x)
    assert inside.start.read is not other.start.read
    model(x)[0].sum().backward()
