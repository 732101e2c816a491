"""The DNC's links with their own backward pass against the plain ones."""

from __future__ import annotations

import pytest
import torch

from sparsam.memories import dnc as module
from sparsam.memories.dnc import dense_links, follow_links, link_step


def inputs(batch=3, size=5, heads=2):
    link = torch.rand(batch, size, size, dtype=torch.float64)
    precedence, written = torch.rand(2, batch, size, dtype=torch.float64).softmax(dim=-1)
    read = torch.rand(batch, heads, size, dtype=torch.float64)
    return [value.clone().requires_grad_() for value in (link, precedence, written, read)]


def plain(link, precedence, written, read):
    after = dense_links(link, precedence, written)
    return after, *follow_links(after, read)


@pytest.fixture(params=[1, 50, 2**20], ids=lambda entries: f"blocks of {entries}")
def block(request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ENTRIES", request.param)


def test_equals_the_plain_ones_over_steps(block):
    values = inputs()
    results = []
    for step in (link_step, plain):
        link, *rest = values
        total = torch.zeros((), dtype=torch.float64)
        for t in range(3):
            link, forward, backward = step(link, *rest)
            total = total + (forward * (t + 1)).sum() + backward.square().sum()
        results.append([link, total, *torch.autograd.grad(total, values)])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs)


def test_gradients_once_and_twice(block):
    assert torch.autograd.gradcheck(link_step, inputs())
    assert torch.autograd.gradgradcheck(link_step, inputs(batch=2, size=3))


@pytest.mark.parametrize("output", [0, 1, 2])
def test_each_output_alone(output):
    assert torch.autograd.gradcheck(lambda *values: link_step(*values)[output], inputs())


def test_links_that_take_no_bytes_may_come_in():
    link = torch.zeros(1, 1, 1, dtype=torch.float64).expand(3, 5, 5)
    values = inputs()[1:]
    for ours, theirs in zip(link_step(link, *values), plain(link, *values)):
        torch.testing.assert_close(ours, theirs)


def test_it_keeps_one_matrix_per_step():
    kept = set()

    def note(tensor):
        if tensor.shape == (3, 5, 5):
            kept.add(tensor.untyped_storage().data_ptr())
        return tensor

    link, *rest = inputs()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        for _ in range(4):
            link = link_step(link, *rest)[0]
    assert len(kept) == 5  # the one before the first step, and the one after each
