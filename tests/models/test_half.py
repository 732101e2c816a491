"""Half precision and autocast: dtypes as `nn.LSTM` has them, the memory in float32, and models that learn."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn import functional as F

import sparsam
from tests.models.test_compile import MODELS

HALF = [torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def without_onednn():
    """Where a machine shows AMX and forbids it, oneDNN's products of half precision fail, those of nn.LSTM too."""
    torch.manual_seed(0)
    before = torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)


def floats(state):
    return {n: v.dtype for n, v in state.values() if isinstance(v, torch.Tensor) and v.is_floating_point()}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", MODELS)
def test_parameters_of_half_precision_run_in_the_native_engine(name, dtype):
    model = MODELS[name]().to(dtype)
    twin = MODELS[name]()
    twin.load_state_dict(model.state_dict())
    assert model.engine_used == "native"
    x = torch.randn(6, 2, 4).to(dtype)
    y, state = model(x[:4])
    again, state = model(x[4:], state)
    expected, _ = twin(x.float())
    assert y.dtype == again.dtype == dtype
    assert set(floats(state).values()) == {torch.float32}
    assert state.memory.kind.dtype == torch.float32
    torch.testing.assert_close(torch.cat([y, again]).float(), expected, rtol=0.05, atol=0.05)
    torch.cat([y, again]).float().square().sum().backward()
    expected.square().sum().backward()
    assert all(p.grad.dtype == dtype for p in model.parameters())
    ours, theirs = (torch.cat([p.grad.float().flatten() for p in m.parameters()]) for m in (model, twin))
    assert float((ours - theirs).norm() / theirs.norm()) < 0.1
    model(x, model.initial_state(2, torch.randn(20, 5).to(dtype)))
    model(x, lengths=torch.tensor([2, 6]))


def test_a_million_words_of_half_precision_stay_sparse():
    model = sparsam.SAM(4, 3, memory_size=1_000_000).bfloat16()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, state = model(torch.randn(3, 1, 4).bfloat16())
    assert model.engine_used == "native" and y.dtype == torch.bfloat16
    assert len(state.memory_rows(0)[0]) <= 3 * 4 * (4 + 1)  # T·R·(K+1)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_autocast_takes_what_lstm_takes(name, engine):
    model = MODELS[name](engine=engine)
    x = torch.randn(3, 2, 4)
    with pytest.raises(TypeError, match=r"x: expected dtype torch\.float32"):
        model(x.bfloat16())
    expected, _ = model(x)
    for given in (x, x.bfloat16()):
        with torch.autocast("cpu", torch.bfloat16):
            y, state = model(given)
            again, state = model(given, state, lengths=torch.tensor([2, 3]))
        assert y.dtype == again.dtype == torch.bfloat16
        assert set(floats(state).values()) == {torch.float32}
        torch.testing.assert_close(y.float(), expected, rtol=0.05, atol=0.05)
    again.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


@pytest.mark.parametrize("make", [sparsam.LSTM, sparsam.DAM, sparsam.NTM, sparsam.DNC])
def test_autocast_of_the_other_models(make):
    model = make(4, 3, 5)
    x = torch.randn(3, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = model(x.bfloat16())
        y, state = model(x, state)
    assert y.dtype == torch.bfloat16
    assert set(floats(state).values()) == {torch.float32}
    y.float().sum().backward()


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_half_precision_and_autocast_compile(backend):
    torch._dynamo.reset()
    x = torch.randn(3, 2, 4)
    model = MODELS["sam"]()
    call = torch.compile(model, fullgraph=True, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = call(x.bfloat16())
        torch.testing.assert_close(y, model(x.bfloat16())[0])
    model = MODELS["sam"]().bfloat16()
    call = torch.compile(model, fullgraph=True, backend=backend)
    y, state = call(x.bfloat16())
    torch.testing.assert_close(y, model(x.bfloat16())[0])
    torch.testing.assert_close(call(x.bfloat16(), state.detach())[0], model(x.bfloat16(), state.detach())[0])


def copy_batch(generator, batch=16, length=3, symbols=4):
    """A few symbols, a cue, and the same symbols asked for."""
    seen = torch.randint(symbols, (length, batch), generator=generator)
    x = torch.zeros(2 * length, batch, symbols + 1)
    x[:length, :, :symbols] = F.one_hot(seen, symbols).float()
    x[length:, :, symbols] = 1
    return x, seen


def learned(dtype, autocast=False, updates=150):
    """The loss of a tiny copy after a few updates; float32 starts at log 4."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = sparsam.SAM(5, 4, hidden_size=24, memory_size=32, word_size=8, num_heads=1, k=2).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-4)
    losses = []
    for _ in range(updates):
        x, seen = copy_batch(generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y, _ = model(x.to(torch.bfloat16 if autocast else dtype))
        loss = F.cross_entropy(y[3:].flatten(0, 1).float(), seen.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return sum(losses[-10:]) / 10


def test_it_learns_a_copy_as_float32_does():
    single = learned(torch.float32)
    found = {"bfloat16": learned(torch.bfloat16), "float16": learned(torch.float16)}
    found["autocast"] = learned(torch.float32, autocast=True)
    assert single < 0.9, single
    assert all(loss < single + 0.25 for loss in found.values()), (single, found)
