"""Sparse temporal links of the SDNC (section D.1 of the paper): N, P and the precedence p, K_L entries to a row.

The reference holds them as dense matrices in which 0 means 'no entry'; `csrc/memory/links.h` keeps lists. Rules that
both follow, where the equations leave a choice:

1. w(i) is the sum of the step's write weights at row i over all heads, divided by R. A row is written when w(i) > 0.
2. The decays 1 - w(i) and 1 - sum w are taken as 0 when they would be negative: read weights that follow P may sum to
   more than 1, and so may what is written with them. Entries are thus never negative, and 'in N(i,.)' or 'in p' means
   an entry above 0.
3. N and P are both updated from N and p as they were before the step; P(j,i) changes for every written i and every
   j != i in p or in N(i,.). Nothing is ever stored on the diagonal.
4. After all updates of the step each row that changed keeps its K_L largest entries, ties to the lowest row (column).
   A row that did not change has no more than K_L entries already, so truncating all rows is the same.
5. p is updated last, with its own truncation to K_L entries under the same rule.
6. Candidates to read are the K rows of the content read and all rows of mixed weight above 0; the K of largest
   weight are kept, largest first, ties to the lowest row. There are always K of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparsam.state import TensorStore


@dataclass(frozen=True, eq=False, repr=False)
class DenseLinks(TensorStore):
    """The links of every batch element, zero for no entry."""

    predecessors: Tensor  # N (B, N, N): row i holds what was written before i
    successors: Tensor  # P (B, N, N): row j holds what was written after j
    precedence: Tensor  # p (B, N)
    k_links: int = 0  # K_L, so that engines that keep lists know their length

    @property
    def shape(self) -> torch.Size:
        return self.predecessors.shape


torch.serialization.add_safe_globals([DenseLinks])


def no_links(batch: int, size: int, like: Tensor, k_links: int = 0) -> DenseLinks:
    """N_0 = P_0 = 0, p_0 = 0."""
    matrix = like.new_zeros(1, 1, 1).expand(batch, size, size)
    return DenseLinks(matrix, matrix, matrix[:, 0], k_links)


def averaged_writes(rows: Tensor, weights: Tensor, size: int) -> Tensor:
    """w (B, N): the write weights (B, R, K+1) of all heads summed per row and divided by R; rows of -1 are none."""
    flat = (weights * (rows >= 0)).flatten(1) / weights.shape[1]
    return flat.new_zeros(flat.shape[0], size).scatter_add(1, rows.clamp_min(0).flatten(1), flat)


def keep_largest(entries: Tensor, count: int) -> Tensor:
    """The `count` largest entries along the last dimension, 0 elsewhere; ties go to the lowest position."""
    if count >= entries.shape[-1]:
        return entries
    kept = entries.detach().sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return entries * torch.zeros_like(entries).scatter(-1, kept, 1.0)


def update_links(links: DenseLinks, written: Tensor, k_links: int) -> DenseLinks:
    """One step of N, P and p for averaged write weights w (B, N).

    N_t(i,j) = (1 - w(i)) N_{t-1}(i,j) + w(i) p_{t-1}(j)
    P_t(j,i) = (1 - w(i)) P_{t-1}(j,i) + w(i) p_{t-1}(j)   for written i and j in p_{t-1} or N_{t-1}(i,.)
    p_t = (1 - sum_i w(i)) p_{t-1} + w
    """
    before, w = links.precedence[:, None, :], written[:, :, None]  # p(j) along columns, w(i) along rows
    decay = (1 - w).clamp_min(0)
    off_diagonal = ~torch.eye(written.shape[-1], dtype=torch.bool, device=written.device)
    predecessors = (decay * links.predecessors + w * before) * off_diagonal
    changed = (w > 0) & ((before > 0) | (links.predecessors > 0)) & off_diagonal
    transposed = links.successors.mT  # (i, j)
    successors = torch.where(changed, decay * transposed + w * before, transposed).mT
    precedence = (1 - written.sum(dim=-1, keepdim=True)).clamp_min(0) * links.precedence + written
    return DenseLinks(
        keep_largest(predecessors, k_links),
        keep_largest(successors, k_links),
        keep_largest(precedence, k_links),
        k_links,
    )


def follow_sparse_links(links: DenseLinks, read_rows: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """f_h(i) = sum_j w^R_{t-1,h}(j) P(j,i) and b_h(i) = sum_j w^R_{t-1,h}(j) N(j,i), each (B, R, N).

    Previous reads (B, R, K), rows of -1 for none.
    """
    size = links.shape[-1]
    weights = read_weights * (read_rows >= 0)
    previous = weights.new_zeros(*weights.shape[:2], size).scatter_add(-1, read_rows.clamp_min(0), weights)
    return previous @ links.successors, previous @ links.predecessors


def largest_rows(mixed: Tensor, content_rows: Tensor, k: int) -> Tensor:
    """Rows (B, R, K) of the K largest mixed weights (B, R, N) among the candidates of rule 6."""
    mixed = mixed.detach()
    candidate = (mixed > 0).scatter(-1, content_rows, True)
    return torch.where(candidate, mixed, -1.0).sort(dim=-1, descending=True, stable=True).indices[..., :k]
