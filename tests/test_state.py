"""States as values, apart from any model run."""

from __future__ import annotations

import dataclasses
import io

import pytest
import torch

from sparsam.state import DenseMemory, State, blended, changed_rows, converted, dense_memory


class Counter(State):
    ticks: torch.Tensor
    start: Counter | None = None


def counter(value: float) -> Counter:
    return Counter(torch.full((2, 1), value), torch.full((2, 1), value), torch.full((2,), int(value)))


def running() -> Counter:
    return counter(5.0).with_fields(start=counter(0.0))


def test_fields_leave_the_start_out():
    assert [name for name, _ in running().values()] == ["hidden", "cell", "ticks"]


def test_blend_takes_the_other_where_the_mask_holds():
    mixed = running().blend(torch.tensor([True, False]), counter(9.0))
    assert mixed.hidden.flatten().tolist() == [9.0, 5.0] and mixed.ticks.tolist() == [9, 5]


def test_reset_goes_back_to_the_start_and_keeps_it():
    reset = running().reset(torch.tensor([False, True]))
    assert reset.cell.flatten().tolist() == [5.0, 0.0]
    assert reset.reset(torch.tensor([True, True])).ticks.tolist() == [0, 0]


def test_methods_leave_the_state_as_it_was():
    state = running()
    state.reset(torch.tensor([True, True]))
    state.to(torch.float64)
    assert state.hidden.dtype == torch.float32 and state.ticks.tolist() == [5, 5]


def test_clone_shares_no_storage():
    state = running()
    twin = state.clone()
    twin.hidden.zero_()
    assert state.hidden.flatten().tolist() == [5.0, 5.0]


def test_detach_cuts_the_graph():
    state = running().with_fields(hidden=torch.zeros(2, 1, requires_grad=True) * 2)
    assert state.hidden.requires_grad and not state.detach().hidden.requires_grad


def test_to_leaves_integers_alone_and_takes_the_start_along():
    state = running().to(torch.float64)
    assert state.hidden.dtype == torch.float64 and state.ticks.dtype == torch.int64
    assert state.origin.hidden.dtype == torch.float64
    assert converted(torch.tensor([1]), "meta").device.type == "meta"


def test_every_state_class_loads_with_weights_only():
    file = io.BytesIO()
    torch.save(running(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert loaded.ticks.tolist() == [5, 5] and loaded.origin.ticks.tolist() == [0, 0]


def test_blended_tensors_of_any_rank():
    mask = torch.tensor([True, False])
    assert blended(mask, torch.ones(2, 2, 2), torch.zeros(2, 2, 2)).sum(dim=(1, 2)).tolist() == [4.0, 0.0]


def test_changed_rows_ascend():
    before = torch.zeros(4, 2)
    after = before.clone()
    after[3, 1] = after[1, 0] = 1.0
    rows, words = changed_rows(after, before)
    assert rows.tolist() == [1, 3] and words.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2)])
def test_dense_memory_starts_from_what_is_given(shape):
    memory = dense_memory(2, 3, 2, torch.ones(shape), torch.zeros(()))
    assert isinstance(memory, DenseMemory) and memory.shape == (2, 3, 2)
    assert memory.last_access.tolist() == [[0, 0, 0]] * 2 and memory.clock.tolist() == [0, 0]
    assert memory.changed_rows(1)[0].numel() == 0
    changed = dataclasses.replace(memory, words=memory.words * torch.tensor([1.0, 2.0])[:, None, None])
    assert changed.changed_rows(0)[0].numel() == 0 and changed.changed_rows(1)[0].tolist() == [0, 1, 2]
