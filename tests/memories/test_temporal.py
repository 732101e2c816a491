"""The link matrix of the DNC in small cases worked out by hand."""

from __future__ import annotations

import torch

from sparsam.memories.dnc import dense_links, follow_links, mix_modes, precedence_weights


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_links_of_two_writes():
    link, p = torch.zeros(1, 3, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    first, second = tensor(1.0, 0.0, 0.0)[None], tensor(0.0, 0.5, 0.25)[None]
    link, p = dense_links(link, p, first), precedence_weights(p, first)
    assert link.abs().sum() == 0 and p.tolist() == [[1.0, 0.0, 0.0]]
    link, p = dense_links(link, p, second), precedence_weights(p, second)
    torch.testing.assert_close(link[0], tensor([0, 0, 0], [0.5, 0, 0], [0.25, 0, 0]))
    torch.testing.assert_close(p, tensor(0.25, 0.5, 0.25)[None])
    third = tensor(0.0, 0.5, 0.0)[None]
    link = dense_links(link, p, third)
    # L(1,0) = (1 - 0.5) 0.5 + 0.5 0.25; L(1,2) = 0.5 0.25; L(2,0) stays; nothing on the diagonal
    torch.testing.assert_close(link[0], tensor([0, 0, 0], [0.375, 0, 0.125], [0.25, 0, 0]))


def test_a_rewritten_row_forgets_its_links_both_ways():
    link = torch.zeros(1, 2, 2, dtype=torch.float64)
    link[0, 1, 0] = 1.0
    forgotten = dense_links(link, torch.zeros(1, 2, dtype=torch.float64), tensor(1.0, 0.0)[None])
    assert forgotten.abs().sum() == 0


def test_forward_goes_to_what_was_written_next():
    link = torch.zeros(1, 3, 3, dtype=torch.float64)
    link[0, 1, 0] = link[0, 2, 1] = 1.0  # 0, then 1, then 2
    forward, backward = follow_links(link, tensor([[0, 1, 0]]))
    assert forward.flatten().tolist() == [0, 0, 1] and backward.flatten().tolist() == [1, 0, 0]


def test_modes_are_backward_content_forward():
    b, c, f = torch.eye(3, dtype=torch.float64)[:, None, None]
    assert mix_modes(tensor([[0.2, 0.5, 0.3]]), b, c, f).flatten().tolist() == [0.2, 0.5, 0.3]
