"""States in torch's own containers: collated, mapped and copied right, or refused."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, default_collate

import sparsam


def ran(batch=4):
    torch.manual_seed(0)
    model = sparsam.SAM(3, 2, hidden_size=6, memory_size=32, word_size=4, num_heads=2)
    return model, model(torch.randn(5, batch, 3))[1].detach(), torch.randn(6, batch, 3)


def test_single_sequences_collate_to_a_batch():
    model, state, x = ran()
    together = default_collate([(state[b], x[:, b]) for b in (2, 0)])
    expected = model(x[:, [2, 0]], state[[2, 0]])[0]
    assert torch.equal(model(together[1].transpose(0, 1), together[0])[0], expected)
    with pytest.raises(ValueError, match="one sequence each"):
        default_collate([state, state])


def test_a_loader_gives_batches_of_states():
    model, state, x = ran()
    items = [{"state": state[b], "x": x[:, b]} for b in range(4)]
    (batch,) = DataLoader(items, batch_size=4)  # type: ignore[arg-type]
    assert torch.equal(model(batch["x"].transpose(0, 1), batch["state"])[0], model(x, state)[0])


def test_a_pytree_comes_back_usable():
    model, state, x = ran()
    same = pytree.tree_map(lambda leaf: leaf, {"state": state})["state"]
    assert torch.equal(model(x, same)[0], model(x, state)[0])
    moved = pytree.tree_map(lambda leaf: leaf.to("cpu", copy=True), state)
    assert torch.equal(model(x, moved)[0], model(x, state)[0])


def test_a_pytree_of_some_elements_is_right_or_refused():
    model, state, x = ran()
    part = pytree.tree_map(lambda leaf: leaf[1:3], state)
    try:
        y = model(x[:, 1:3], part)[0]
    except (RuntimeError, ValueError):
        return
    assert torch.equal(y, model(x[:, 1:3], state[1:3])[0])
