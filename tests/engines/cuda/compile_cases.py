"""The operators of the GPU engine: what `opcheck` asks, and models under `torch.compile(fullgraph=True)`.

As `sequence_cases.py` by `test_engine.py`. The backend is "aot_eager", traced and differentiated like "inductor".
"""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.engines.cuda.launch import interpreted
from sparsam.engines.cuda.links import no_sparse_links
from sparsam.engines.cuda.memory import fresh_memory
from sparsam.memories.description import SparseSizes, as_text

SIZES = {"rows": 12, "width": 4, "heads": 2, "k": 2}
MODEL = {"memory_size": 12, "word_size": 4, "num_heads": 2, "k": 2, "engine": "cuda"}
HIDDEN, INPUTS, BATCH = 5, 3, 2
BLOCKS = {"lstm": 4, "gru": 3}
MODELS = {
    "sam": lambda **kwargs: sparsam.SAM(INPUTS, 2, hidden_size=HIDDEN, **MODEL, **kwargs),
    "sam with gru": lambda **kwargs: sparsam.SAM(INPUTS, 2, hidden_size=HIDDEN, controller="gru", **MODEL, **kwargs),
    "sdnc": lambda **kwargs: sparsam.SDNC(
        INPUTS, 2, hidden_size=HIDDEN, link_gradients=True, allocation="free", **MODEL, **kwargs
    ),
    "layer": lambda **kwargs: sparsam.SparseMemory(INPUTS, 2, **MODEL, **kwargs),
}


@pytest.fixture
def device():
    return "cpu" if interpreted() else "cuda"


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(module, **kwargs):
    return torch.compile(module, fullgraph=True, backend="aot_eager", **kwargs)


def arguments(cell, device, steps=2, given=True, **settings):
    """Of `sparsam::cuda_sequence`."""
    sizes = SparseSizes(**SIZES, **settings)

    def tensor(*shape):
        return torch.randn(*shape, device=device, requires_grad=True)

    blocks, read, fields = BLOCKS.get(cell, 0) * HIDDEN, sizes.read_size, sizes.interface.size
    floats = [tensor(steps, BATCH, INPUTS if blocks else fields)]
    if blocks:
        floats += [tensor(blocks, INPUTS + read), tensor(blocks, HIDDEN), tensor(blocks), tensor(blocks)]
        floats += [tensor(fields, HIDDEN), tensor(fields), None, None, tensor(BATCH, HIDDEN)]
        floats += [tensor(BATCH, HIDDEN) if cell == "lstm" else None]
    else:
        floats += [None] * 10
    reads = (BATCH, sizes.heads, sizes.k)
    floats += [tensor(BATCH, sizes.heads, sizes.width), torch.zeros(reads, device=device)]
    words = torch.randn(BATCH, sizes.rows, sizes.width, device=device) if given else None
    memory = fresh_memory(sizes, BATCH, words, floats[0].detach())
    links = []
    if sizes.k_links:
        like, there = floats[0].detach(), memory.words.shape[1]
        links = [v.contiguous() for v in no_sparse_links(BATCH, there, sizes.rows, sizes.k_links, like).tensors()]
    if sizes.link_gradients:
        for value in links[1::2]:
            value.requires_grad_()
    tensors = [value.contiguous() for value in memory.tensors()[:5]]
    usage = None if memory.usage is None else memory.usage.contiguous()
    tensors[0].requires_grad_()
    ends = torch.tensor([steps, max(steps - 1, 1)], device=device)
    rows = torch.full(reads, -1, device=device)
    rest = (as_text(sizes), cell, HIDDEN if blocks else 0, 0.0, memory.touched, memory.entries)
    return (*floats, tensors[0], rows, *tensors[1:], usage, links, ends, *rest)


@pytest.mark.parametrize(
    "cell,settings",
    [("lstm", {"k_links": 2, "link_gradients": True, "allocation": "free"}), ("gru", {}), ("none", {"k_links": 3})],
)
def test_opcheck_of_sequences(cell, settings, device):
    torch.library.opcheck(torch.ops.sparsam.cuda_sequence, arguments(cell, device, **settings))


def test_opcheck_of_one_step(device):
    torch.library.opcheck(torch.ops.sparsam.cuda_sequence, arguments("lstm", device, steps=1, given=False))


def test_opcheck_of_backward(device):
    """It has no derivatives of its own, so it is checked as a function of constants."""
    given = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments("lstm", device)]
    out = torch.ops.sparsam.cuda_sequence(*given)
    settings = (*given[-6:-2], given[13].shape[1], out[5].shape[1])
    back = (*given[:9], given[-7], out[0], out[-1], *settings, *out[:6])
    none = ([], None, None, None)
    torch.library.opcheck(torch.ops.sparsam.cuda_sequence_backward, (*back, *none, True))
    torch.library.opcheck(torch.ops.sparsam.cuda_sequence_backward, (*back[:-6], *[None] * 6, *none, False))


def gradients(loss, model, *more):
    wanted = [*model.parameters(), *more]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(wanted, found)]


def loss_of(y, state):
    fields = sum(v.square().sum() for n, v in state.values() if n in ("hidden", "cell", "read"))
    listed = getattr(state, "links", None)
    links = 0.0 if listed is None else sum(value.square().sum() for value in listed.weights())
    return y.square().sum() + fields + state.memory.words.square().sum() + links


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_gives_the_numbers_and_gradients_of_an_eager_one(name, device):
    model = MODELS[name]().to(device)
    x = torch.randn(2, BATCH, INPUTS, device=device, requires_grad=True)

    def two_calls(x):
        first, middle = model(x)
        again, last = model(x, middle)
        return first, again, last

    first, again, last = two_calls(x)
    expected = gradients(loss_of(again, last) + first.sum(), model, x)
    got_first, got_again, got_last = compiled(two_calls)(x)
    assert torch.equal(got_first, first) and torch.equal(got_again, again)
    for ours, theirs in zip(gradients(loss_of(got_again, got_last) + got_first.sum(), model, x), expected):
        torch.testing.assert_close(ours, theirs)
    for b in range(BATCH):
        for ours, theirs in zip(got_last.memory_rows(b), last.memory_rows(b)):
            assert torch.equal(ours, theirs)


def test_length_and_batch_are_dynamic_and_states_go_in_and_out(device):
    model = MODELS["sam"]().to(device)
    call = compiled(model, dynamic=True)
    for steps, batch in ((2, 2), (3, 3)):
        x = torch.randn(steps, batch, INPUTS, device=device)
        y, state = model(x)
        got, after = call(x)
        torch.testing.assert_close(got, y)
        further, _ = model(x, state.detach())
        torch.testing.assert_close(call(x, after.detach())[0], further)
        torch.testing.assert_close(model(x, after.detach())[0], further)


def test_lengths_resets_and_an_initial_memory(device):
    model = MODELS["sam"]().to(device)
    call = compiled(model)
    x, lengths = torch.randn(2, 3, INPUTS, device=device), torch.tensor([1, 2, 2])
    resets = torch.zeros(2, 3, dtype=torch.bool)
    resets[1, 1] = True
    for more in ({"lengths": lengths}, {"resets": resets}):
        y, state = model(x, **more)
        got, after = call(x, **more)
        torch.testing.assert_close(got, y)
        for ours, theirs in zip(gradients(loss_of(got, after), model), gradients(loss_of(y, state), model)):
            torch.testing.assert_close(ours, theirs)
    words = torch.randn(12, 4, device=device, requires_grad=True)

    def begun(x, words):
        return model(x, model.initial_state(3, words))[0]

    expected = gradients(begun(x, words).sum(), model, words)
    for ours, theirs in zip(gradients(compiled(begun)(x, words).sum(), model, words), expected):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_an_exported_sequence_from_a_fresh_state(name, device, tmp_path):
    """The state comes out as tensors, and an eager call goes on from it."""
    model = MODELS[name]().to(device).eval()
    x, state = torch.randn(2, BATCH, INPUTS, device=device), model.initial_state(BATCH)
    with torch.no_grad():
        program = torch.export.export(model, (x, state))
        torch.export.save(program, tmp_path / "model.pt2")
        served = torch.export.load(tmp_path / "model.pt2").module()
        y, after = served(2 * x, model.initial_state(BATCH))
        expected, last = model(2 * x, state)
        assert torch.equal(y, expected)
        assert torch.equal(model(x, after)[0], model(x, last)[0])


def test_a_trace_is_taken_outside(device):
    model = MODELS["sam"]().to(device)
    with pytest.raises(Exception, match="trace: expected a call outside"):
        compiled(lambda x: model.trace(x))(torch.randn(1, 1, INPUTS, device=device))


def test_a_compiled_model_limits_what_flows_backward(device):
    model = sparsam.SAM(INPUTS, 2, HIDDEN, memory_size=9, word_size=4, num_heads=2, k=2, engine="cuda").to(device)
    x = torch.randn(4, BATCH, INPUTS, device=device)
    exact = torch.autograd.grad(model(x)[0].square().sum(), list(model.parameters()))
    model.backward_clip = 0.01
    expected = torch.autograd.grad(model(x)[0].square().sum(), list(model.parameters()))
    found = torch.autograd.grad(compiled(model)(x)[0].square().sum(), list(model.parameters()))
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine, theirs)
    assert not torch.allclose(exact[0], expected[0])
