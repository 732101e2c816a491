"""SparseMemory, the layer: its equations, its engines, its place in somebody's own model."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sparsam
from sparsam import engines
from tests.beside import assert_same, run

SIZES = dict(input_size=5, memory_size=12, word_size=4, num_heads=2, k=3)
STEPS, BATCH = 8, 3


def layer(engine="reference", **settings):
    torch.manual_seed(1)
    return sparsam.SparseMemory(**{**SIZES, "engine": engine, **settings}).double()


def inputs(steps=STEPS, seed=7):
    return torch.randn(steps, BATCH, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


FAST = [e for e in engines.ENGINES if e != "reference" and engines.why_not(e, layer("auto")) is None]
EVERY = ["reference", *FAST]
VARIANTS = [{}, {"links": 3}, {"links": 3, "link_gradients": True}, {"conv": 0}, {"conv": 2, "output_size": 7}]


@pytest.mark.parametrize("engine", FAST)
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_fast_equals_reference(engine, settings):
    memory = torch.randn(12, 4, dtype=torch.float64)
    how = {"x": inputs(), "memory": memory, "splits": (3,), "lengths": torch.tensor([5, 2, 4])}
    fast, reference = layer(engine, **settings), layer(**settings)
    found, expected = run(fast, **how), run(reference, **how)
    assert_same(fast, found, expected, 1e-9)
    torch.testing.assert_close(found[1].window, expected[1].window)


def test_equations():
    """The interface of step t is a linear map of the convolved inputs, the output one of [x_t, r_t]."""
    model, x = layer(), inputs()
    y, _ = model(x)
    padded = F.pad(x.permute(1, 2, 0), (3, 0))
    vectors = model.interface(F.conv1d(padded, model.conv.weight, model.conv.bias, groups=5).permute(2, 0, 1))
    state, reads = model.initial_state(BATCH), []
    for vector in vectors:
        read, fields, _ = model.memory.step(vector, state)
        state = state.with_fields(**fields)
        reads.append(read.flatten(1))
    torch.testing.assert_close(y, model.output(torch.cat([x, torch.stack(reads)], dim=-1)))


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_gradcheck(settings):
    model = layer(**settings)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    # The third step reads along links, and their gradient is left out unless it is asked for.
    x = inputs(2 if settings == {"links": 3} else 3).requires_grad_()
    memory = torch.randn(12, 4, dtype=torch.float64, requires_grad=True)
    run = lambda x, m: model(x, model.initial_state(BATCH, initial_memory=m))[0]  # noqa: E731
    assert torch.autograd.gradcheck(run, (x, memory))


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_two_calls_equal_one(engine, cut):
    model, x = layer(engine), inputs()
    whole, last = model(x)
    first, state = model(x[:cut])
    second, state = model(x[cut:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(state.window, last.window)


@pytest.mark.parametrize("engine", EVERY)
def test_padding_changes_nothing(engine):
    model, lengths = layer(engine), torch.tensor([1, 8, 5])
    x = inputs()
    y, state = model(x, lengths=lengths)
    for b, length in enumerate(lengths.tolist()):
        alone, end = model(x[:length, b : b + 1])
        torch.testing.assert_close(y[:length, b : b + 1], alone)
        assert (y[length:, b] == 0).all()
        torch.testing.assert_close(state.window[b : b + 1], end.window)
        more, _ = model(inputs(2, seed=9)[:, b : b + 1], end)
        torch.testing.assert_close(model(inputs(2, seed=9), state)[0][:, b : b + 1], more)


@pytest.mark.parametrize("engine", EVERY)
def test_traces_are_the_same(engine):
    ours, theirs = layer(engine).trace(inputs()), layer().trace(inputs())
    torch.testing.assert_close(ours.row, theirs.row)
    torch.testing.assert_close(ours.weight, theirs.weight)
    assert (ours.time.diff() >= 0).all()


@pytest.mark.parametrize("engine", EVERY)
def test_stacks_into_a_block(engine):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.memory = nn.LayerNorm(5), sparsam.SparseMemory(**SIZES, engine=engine)

        def forward(self, x):
            return x + self.memory(self.norm(x))[0]

    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block()).double()
    y = model(inputs())
    assert y.shape == (STEPS, BATCH, 5)
    gradients = torch.autograd.grad(y.square().sum(), list(model.parameters()))
    assert all(g.abs().max() > 0 for g in gradients)


def test_hooks_and_replaced_parts_are_honoured():
    fired = []
    model = layer("auto")
    for part in ("conv", "interface", "output"):
        getattr(model, part).register_forward_hook(lambda *_, part=part: fired.append(part))
    plain = layer("auto")
    torch.testing.assert_close(model(inputs())[0], plain(inputs())[0])
    assert fired == ["conv", "interface", "output"]


def test_gates_begin_open_unless_a_plain_start_is_asked_for():
    opened, plain = layer(), layer(start="plain")
    first = opened.memory.interface.split(opened.interface.bias[None])
    assert (first["write_gate"] > 0.75).all() and (first["interpolation"] < 0.05).all()
    assert (first["strength"] > 3.5).all()
    half = plain.memory.interface.split(plain.interface.bias[None])
    assert ((half["write_gate"] - 0.5).abs() < 0.2).all() and ((half["interpolation"] - 0.5).abs() < 0.2).all()
    opened.load_state_dict(plain.state_dict())  # the start is no part of what is saved
    torch.testing.assert_close(opened(inputs())[0], plain(inputs())[0])
    with pytest.raises(ValueError, match="start: expected one of 'open', 'plain', got 'shut'"):
        layer(start="shut")


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="conv: expected a positive int, got -1"):
        layer(conv=-1)
    with pytest.raises(ValueError, match="links: expected a positive int, got -2"):
        layer(links=-2)
    with pytest.raises(ValueError, match="links: expected at least 1 with link_gradients"):
        layer(link_gradients=True)
    with pytest.raises(ValueError, match="x: expected width I = 5"):
        layer()(torch.zeros(2, 3, 4, dtype=torch.float64))


@pytest.mark.parametrize(("heads", "links"), [(1, 0), (2, 0), (1, 2)])
def test_queries_that_are_known_before_they_are_asked_find_the_same(heads: int, links: int) -> None:
    """A long call searches for several steps at once when there are 1,024 words and more; single steps cannot."""
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(6, memory_size=4096, word_size=8, num_heads=heads, k=2, links=links, engine="native")
    x, lengths = torch.randn(1400, 2, 6), torch.tensor([1400, 1231])
    with torch.no_grad():
        whole, after = layer(x, lengths=lengths)
        state, pieces = None, []
        for piece in x.split(1):
            y, state = layer(piece, state)
            pieces.append(y)
    steps = torch.cat(pieces)
    torch.testing.assert_close(whole[:, 0], steps[:, 0])
    torch.testing.assert_close(whole[:1231, 1], steps[:1231, 1])
    rows, words = after.memory_rows(0)
    assert len(rows) >= 1024 and rows.equal(state.memory_rows(0)[0])
    torch.testing.assert_close(words, state.memory_rows(0)[1])


def test_a_convolution_of_ones_own_needs_no_weight():
    class Latest(torch.nn.Module):
        kernel_size = (4,)

        def forward(self, x):
            return x[..., 3:]

    layer = sparsam.SparseMemory(5, memory_size=20, word_size=4, num_heads=1, k=2)
    layer.conv = Latest()
    x, window = torch.randn(6, 2, 5), torch.zeros(2, 3, 5)
    for native in (True, False):
        assert torch.equal(layer.past_and_present(x, window, None, native)[0], x)
    y, _ = layer(x, lengths=torch.tensor([6, 3]))
    assert y.shape == (6, 2, 5)
