"""Sparse links against dictionaries truncated the same way, and the rules where the equations leave a choice."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.memories.sdnc import (
    DenseLinks,
    averaged_writes,
    follow_sparse_links,
    keep_largest,
    largest_rows,
    no_links,
    update_links,
)
from tests.beside import examples

SIZE = 6
LIKE = torch.zeros((), dtype=torch.float64)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def largest(row, count):
    return dict(sorted(row.items(), key=lambda entry: (-entry[1], entry[0]))[:count])


def dense(rows):
    out = torch.zeros(len(rows), SIZE, dtype=torch.float64)
    for i, row in enumerate(rows):
        for j, value in row.items():
            out[i, j] = value
    return out


# weights on a coarse grid, so that ties are common; at most three rows a step, summing to at most 1
writes = st.dictionaries(st.integers(0, SIZE - 1), st.sampled_from([0.0, 0.125, 0.25]), max_size=3)


@examples(60)
@given(steps=st.lists(writes, min_size=1, max_size=8), k_links=st.integers(1, 4))
def test_equal_dictionaries_truncated_the_same_way(steps, k_links):
    before, after, p = [{} for _ in range(SIZE)], [{} for _ in range(SIZE)], {}
    links = no_links(1, SIZE, LIKE)
    for w in steps:
        old = [dict(row) for row in before]
        written = {i: weight for i, weight in w.items() if weight > 0}
        for i, weight in written.items():
            before[i] = {
                j: (1 - weight) * old[i].get(j, 0.0) + weight * p.get(j, 0.0) for j in set(old[i]) | set(p) if j != i
            }
            for j in set(old[i]) | set(p):
                if j != i:
                    after[j][i] = (1 - weight) * after[j].get(i, 0.0) + weight * p.get(j, 0.0)
        before = [largest({j: v for j, v in row.items() if v > 0}, k_links) for row in before]
        after = [largest({i: v for i, v in row.items() if v > 0}, k_links) for row in after]
        keep = 1 - sum(written.values())
        p = largest({i: keep * p.get(i, 0.0) + written.get(i, 0.0) for i in set(p) | set(written)}, k_links)
        links = update_links(links, dense([written]), k_links)
        assert torch.equal(links.predecessors[0], dense(before))
        assert torch.equal(links.successors[0], dense(after))
        assert torch.equal(links.precedence, dense([p]))


@examples(40)
@given(steps=st.lists(writes, min_size=1, max_size=8))
def test_without_truncation_n_is_the_transpose_of_p(steps):
    links = no_links(1, SIZE, LIKE)
    for w in steps:
        links = update_links(links, dense([w]), SIZE)
    torch.testing.assert_close(links.predecessors, links.successors.mT)
    assert (links.predecessors.diagonal(dim1=-2, dim2=-1) == 0).all()


def test_only_rows_that_are_written_or_precede_them_change():
    links = DenseLinks(torch.rand(1, 4, 4), torch.rand(1, 4, 4), tensor(0, 0, 1, 0)[None].float())
    links.predecessors[0].fill_diagonal_(0)
    links.successors[0].fill_diagonal_(0)
    links.predecessors[0, 1, 3] = 0  # so row 3 neither precedes row 1 nor is in p
    after = update_links(links, torch.tensor([[0.0, 0.5, 0.0, 0.0]]), 4)
    changed = (after.predecessors != links.predecessors)[0].any(-1)
    assert changed.tolist() == [False, True, False, False]
    assert (after.successors != links.successors)[0].nonzero().tolist() == [[0, 1], [2, 1]]


def test_ties_go_to_the_lowest_row():
    assert keep_largest(tensor(0.5, 1.0, 0.5, 0.5), 2).tolist() == [0.5, 1.0, 0.0, 0.0]


def test_truncation_passes_gradients_to_what_is_kept():
    row = tensor(1.0, 3.0, 2.0).requires_grad_()
    keep_largest(row, 2).sum().backward()
    assert row.grad.tolist() == [0.0, 1.0, 1.0]


def test_decays_are_never_negative():
    links = DenseLinks(torch.full((1, 2, 2), 0.5), torch.full((1, 2, 2), 0.5), torch.tensor([[0.5, 0.5]]))
    after = update_links(links, torch.tensor([[1.5, 0.25]]), 2)
    assert after.predecessors.min() >= 0 and after.successors.min() >= 0
    assert after.precedence.tolist() == [[1.5, 0.25]]


def test_writes_are_averaged_over_heads():
    rows = torch.tensor([[[-1, 2], [2, 0]]])
    weights = torch.tensor([[[0.9, 0.4], [0.2, 0.6]]])
    torch.testing.assert_close(averaged_writes(rows, weights, 4), torch.tensor([[0.3, 0.0, 0.3, 0.0]]))


def test_forward_follows_successors_and_backward_predecessors():
    links = no_links(1, 3, LIKE)
    for row in (0, 1, 2):
        links = update_links(links, torch.eye(3, dtype=torch.float64)[row][None], 2)
    forward, backward = follow_sparse_links(links, torch.tensor([[[1, -1]]]), tensor(0.5, 0.7).view(1, 1, 2))
    assert forward.flatten().tolist() == [0.0, 0.0, 0.5]
    assert backward.flatten().tolist() == [0.5, 0.0, 0.0]


def test_content_rows_come_before_rows_that_nothing_reaches():
    mixed = torch.tensor([[[0.0, 0.0, 0.2, 0.0, 0.2]]])
    content_rows = torch.tensor([[[3, 4]]])
    assert largest_rows(mixed, content_rows, 2).tolist() == [[[2, 4]]]
    assert largest_rows(mixed * 0, content_rows, 2).tolist() == [[[3, 4]]]


def test_store_blends_and_converts():
    ours, theirs = no_links(2, 3, LIKE), DenseLinks(*(part + 1 for part in no_links(2, 3, LIKE).named().values()))
    mixed = ours.blend(torch.tensor([False, True]), theirs).to(torch.float32)
    assert mixed.precedence.tolist() == [[0.0] * 3, [1.0] * 3] and mixed.successors.dtype == torch.float32
    assert mixed.shape == (2, 3, 3)
