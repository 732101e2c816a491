"""Many episodes in one sequence: what each engine's loop makes of `resets`, against a loop over the pieces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sparsam
from sparsam.models import episodes

MODELS = {
    "sam": lambda: sparsam.SAM(3, 2, hidden_size=5, memory_size=40, word_size=4, num_heads=2, k=3, dtype=torch.float64),
    "sdnc": lambda: sparsam.SDNC(
        3, 2, hidden_size=5, memory_size=40, word_size=4, num_heads=2, k=3, link_gradients=True, dtype=torch.float64
    ),
    "layer": lambda: sparsam.SparseMemory(3, memory_size=40, word_size=4, num_heads=2, k=3, dtype=torch.float64),
    "lstm": lambda: sparsam.LSTM(3, 2, hidden_size=5, dtype=torch.float64),
}


def made(name):
    torch.manual_seed(0)
    return MODELS[name]()


@given(
    st.integers(1, 12).flatmap(
        lambda steps: st.lists(
            st.tuples(st.lists(st.booleans(), min_size=steps, max_size=steps), st.integers(0, steps)),
            min_size=1,
            max_size=5,
        )
    )
)
def test_every_step_is_in_one_episode(columns):
    lengths = torch.tensor([length for _, length in columns])
    flags = torch.tensor([flags for flags, _ in columns]).T
    flags = flags & (torch.arange(len(flags))[:, None] < lengths)
    found = episodes.episodes(flags, lengths)
    seen = [set() for _ in columns]
    for element, begin, length, anew, last in zip(*(field.tolist() for field in found)):
        assert anew == bool(flags[begin, element])
        assert anew or begin == 0
        assert last == (begin + length == lengths[element])
        steps = set(range(begin, begin + length))
        assert not steps & seen[element]
        seen[element] |= steps
    assert seen == [set(range(length)) for _, length in columns]
    assert found.last.sum() == len(columns)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=200))
def test_calls_pad_little_and_leave_nothing_out(lengths):
    lengths = torch.tensor(lengths)
    found = episodes.groups(lengths)
    assert sorted(torch.cat(found).tolist()) == list(range(len(lengths)))
    for at in found:
        these = lengths[at]
        assert len(these) * these.max() <= episodes.PADDING * these.sum() + episodes.SPARE


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("padded", [False, True])
def test_equals_the_loop_over_pieces(name, padded, monkeypatch):
    model = made(name)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 12, 3, generator=generator, dtype=torch.float64).requires_grad_()
    flags = torch.rand(60, 12, generator=generator) < torch.linspace(0, 0.9, 12)
    lengths = torch.randint(0, 61, (12,), generator=generator) if padded else None
    monkeypatch.setattr(episodes, "SPARE", 0)  # several calls
    results = []
    for together in (True, False):
        if not together:
            monkeypatch.setattr(episodes, "run", episodes._in_pieces)
            if lengths is not None:
                flags = flags & (torch.arange(60)[:, None] < lengths)
        _, state = model(x[:5].flip(0))
        y, state = model(x, state, lengths=lengths, resets=flags)
        z, state = model(x[:3], state, resets=flags[:3] if lengths is None else None)
        found = torch.autograd.grad(y.square().sum() + z.square().sum(), [x, *model.parameters()])
        results.append([y, z, *found])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs)


def test_an_engine_is_called_once(monkeypatch):
    model = made("sam")
    engine = model.plan.engine
    assert model.plan.fused
    calls, sequence = [], type(engine).sequence
    monkeypatch.setattr(
        type(engine), "sequence", lambda self, *args: calls.append(args[2].shape) or sequence(self, *args)
    )
    model(torch.randn(40, 4, 3, dtype=torch.float64), resets=torch.rand(40, 4) < 0.3)
    assert len(calls) == 1


@pytest.mark.parametrize("name", MODELS)
def test_what_padding_holds_reaches_nothing(name):
    model = made(name)
    x = torch.randn(9, 3, 3, dtype=torch.float64)
    resets = torch.zeros(9, 3, dtype=torch.bool)
    resets[2, 0] = resets[7, 1] = resets[4, 2] = True
    x[5:, 2] = torch.nan
    x.requires_grad_()
    y, _ = model(x, lengths=torch.tensor([9, 8, 5]), resets=resets)
    (found,) = torch.autograd.grad(y.sum(), [x])
    assert y.isfinite().all()
    assert found.isfinite().all()
    assert not found[5:, 2].any()
