"""A padded batch in pieces equals the same batch packed: hidden states, what is carried, and every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

import sparsam
from sparsam.controllers.padded import in_pieces, packed, run_padded
from tests.beside import examples


def everything(way: Any, lstm: nn.LSTM, ends: Tensor, steps: int) -> list[Tensor]:
    """Outputs and gradients of one way to run a batch, the same input each time."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((steps, len(ends), 3), *(2 * ((lstm.num_layers, len(ends), 4),)))
    x, h, c = (torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes)
    hidden, after = way(lstm, x, (h, c), ends)
    counts = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in (hidden, *after)]
    counts[0][torch.arange(steps)[:, None] >= ends] = 0.0  # packed, an empty element runs one step
    loss = sum((value * count).sum() for value, count in zip((hidden, *after), counts))
    gradients = torch.autograd.grad(loss, [x, h, c, *lstm.parameters()], allow_unused=True, materialize_grads=True)
    return [hidden, *after, *gradients]


@examples(60)
@given(st.data(), st.integers(1, 6), st.integers(1, 7), st.integers(1, 2))
def test_pieces_equal_the_packed_batch(data: st.DataObject, batch: int, steps: int, layers: int) -> None:
    lengths = data.draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
    lstm = nn.LSTM(3, 4, layers).double()
    ours, theirs = (everything(way, lstm, torch.tensor(lengths), steps) for way in (in_pieces, packed))
    past = torch.arange(steps)[:, None] >= torch.tensor(lengths)
    assert not ours[0][past].any()
    theirs[0] = theirs[0].masked_fill(past[..., None], 0.0)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_an_empty_element_keeps_what_it_carried() -> None:
    lstm = nn.LSTM(3, 4)
    x, h, c = torch.randn(5, 3, 3), torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    hidden, after = run_padded(lstm, x, (h, c), torch.tensor([0, 5, 0]))
    assert not hidden[:, [0, 2]].any()
    assert all(torch.equal(now[:, [0, 2]], before[:, [0, 2]]) for now, before in zip(after, (h, c)))
    hidden, after = run_padded(lstm, x, (h, c), torch.tensor([0, 0, 0]))
    assert hidden.shape == (5, 3, 4) and not hidden.any()
    assert all(torch.equal(now, before) for now, before in zip(after, (h, c)))


def test_one_element_does_not_touch_another() -> None:
    lstm = nn.LSTM(3, 4)
    x, carried = torch.randn(5, 3, 3), (torch.zeros(1, 3, 4), torch.zeros(1, 3, 4))
    ends = torch.tensor([5, 3, 2])
    clean, _ = run_padded(lstm, x, carried, ends)
    x[1, 1], x[4, 2] = torch.nan, torch.nan  # inside the second element; past the end of the third
    broken, _ = run_padded(lstm, x, carried, ends)
    torch.testing.assert_close(broken[:, [0, 2]], clean[:, [0, 2]])
    assert broken[1:3, 1].isnan().all()


@pytest.mark.parametrize("change", ["hook", "forward", "subclass"])
def test_a_changed_module_is_called_once(change: str) -> None:
    """A hook, or a forward of one's own, sees the batch as a whole."""
    seen = []

    class Own(nn.LSTM):
        def forward(self, x, carried=None):
            seen.append(x)
            return super().forward(x, carried)

    model = sparsam.LSTM(3, 2, 4)
    if change == "hook":
        model.controller.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    elif change == "subclass":
        model.controller = Own(3, 4)
    else:
        plain = model.controller.forward
        model.controller.forward = lambda x, carried=None: seen.append(x) or plain(x, carried)
    model(torch.randn(5, 3, 3), lengths=torch.tensor([5, 3, 2]))
    assert len(seen) == 1 and isinstance(seen[0], PackedSequence)


def test_backward_does_not_allocate_a_sequence_for_every_step() -> None:
    """What packing costs on a CPU: its backward pass allocates T times T steps (module docstring)."""
    model, steps = sparsam.LSTM(3, 2, 4), 200
    x = torch.randn(steps, 2, 3)
    with torch.profiler.profile(profile_memory=True) as profile:
        model(x, lengths=torch.tensor([steps, steps - 1]))[0].sum().backward()
    allocated = sum(max(event.self_cpu_memory_usage, 0) for event in profile.events())
    assert allocated < 100 * x.numel() * 4


def test_half_precision_by_autocast() -> None:
    model = sparsam.LSTM(3, 2, 4)
    x, lengths = torch.randn(5, 3, 3), torch.tensor([5, 1, 2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = model(x, lengths=lengths)
    wanted, last = model(x, lengths=lengths)
    torch.testing.assert_close(y.float(), wanted, rtol=0.1, atol=0.05)
    torch.testing.assert_close(state.cell.float(), last.cell, rtol=0.1, atol=0.05)
