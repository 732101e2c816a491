"""The memory of the Sparse Differentiable Neural Computer (section D): SAM's with sparse temporal links.

Writes, ring and usage are SAM's. After the write the links are updated, and a head reads
w^R = pi_b b + pi_c c + pi_f f, of which the K largest entries are kept, not renormalised.

The links (section D.1) are N, P and the precedence p, K_L entries to a row. Here they are dense matrices in which 0
means 'no entry'; `csrc/memory/links.h` keeps lists. Rules that both follow, where the equations leave a choice:

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

`allocation="free"` takes the DNC's usage and free gates in place of the ring, and writes only the R least used words
anew. The paper says of the DNC's dynamic allocation that a version of it 'avoiding any O(N) operations by using a heap'
is possible, and leaves it out. Here usage is a vector; `csrc/memory/usage_heap.h` is the heap. Then `delta` changes
nothing, and both follow these rules:

1. Usage u is 0 at the start. A step first frees what it lets go of: u(i) <- u(i) prod_h (1 - f_h w^R_{t-1,h}(i)), where
   a read weight counts as at most 1 (those that follow links may be more). Only rows read in the step before change.
2. The R rows of least usage, ties to the lowest row, are the u_h of this step, least first; each is erased.
3. A word takes what it has room for: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) (1 - u(u_h)) 1[u_h]).
4. At the end of the step u(i) <- u(i) + w(i) - u(i) w(i), held within [0, 1], with w the write weights averaged over
   the heads, as for the links.
5. Usage that is no more than 16 times the smallest normal number is 0, so that the rows never used and those that a
   saturated gate used or freed tell apart the same way in any arithmetic.

The usage that a step starts from and the rows that it selects are constants for the gradient. Within the step the room
1 - u(u_h) is differentiated with respect to the free gates and the previous read weights: this is how free gates learn.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam.memories.addressing import gather_words, weighted_sum
from sparsam.memories.dam import least_used
from sparsam.memories.dnc import mix_modes, retention
from sparsam.memories.sam import SAMMemory, SparseState
from sparsam.state import DenseMemory, State, Store, TensorStore
from sparsam.trace import Access


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


class SDNCState(SparseState):
    """State of the SDNC: SAM's and the links, which are the engine's like the memory."""

    links: Store
    start: SDNCState | None = None


class SDNCMemory(SAMMemory):
    """SAM's memory whose heads can also follow the order in which words were written, backward or forward."""

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super().shapes(), "links": (self.rows, self.rows)}

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        fields = {**super().fresh(batch, initial, like), "links": no_links(batch, self.rows, like, self.sizes.k_links)}
        if self.sizes.allocation == "free":
            fields["memory"] = dataclasses.replace(fields["memory"], usage=like.new_zeros(batch, self.rows))
        return fields

    def unused(self, request: dict[str, Tensor], state: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if self.sizes.allocation == "ring":
            return super().unused(request, state)
        usage = freed(state.memory.usage, request["free_gates"], state.read_rows, state.read_weights)
        rows = least_used(usage.detach(), self.heads)
        return rows, room(usage, rows), usage

    def accessed(self, memory: DenseMemory, usage: Tensor | None, written: Access, found: Access) -> dict[str, Any]:
        if usage is None:
            return super().accessed(memory, usage, written, found)
        return {"usage": filled(usage, averaged_writes(written.rows, written.weights, self.rows))}

    def read(
        self, request: dict[str, Tensor], words: Tensor, state: Any, write_rows: Tensor, w_write: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """The links of this step, then the mixed read."""
        before, written = state.links, averaged_writes(write_rows, w_write, self.rows)
        if not self.sizes.link_gradients:
            before, written = before.detach(), written.detach()
        links = update_links(before, written, self.sizes.k_links)
        forward, backward = follow_sparse_links(links, state.read_rows, state.read_weights)
        content_rows, chosen = self.content(request, words)
        content = torch.zeros_like(forward).scatter(-1, content_rows, chosen)
        mixed = mix_modes(request["read_modes"], backward, content, forward)
        rows = largest_rows(mixed, content_rows, self.sizes.k)
        weights = mixed.gather(-1, rows)
        read = weighted_sum(weights, gather_words(words, rows))
        return rows, weights, read, {"links": links}


# --- Links ---


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


# --- Usage with free gates ---


def freed(usage: Tensor, free_gates: Tensor, read_rows: Tensor, read_weights: Tensor) -> Tensor:
    """Rule 1: u (B, N) after free gates f (B, R) and the previous reads (B, R, K), rows of -1 for none."""
    weights = read_weights.clamp_max(1.0) * (read_rows >= 0)
    read = weights.new_zeros(*weights.shape[:2], usage.shape[-1]).scatter_add(-1, read_rows.clamp_min(0), weights)
    return without_traces(usage * retention(free_gates, read))


def room(usage: Tensor, rows: Tensor) -> Tensor:
    """1 - u(u_h), (B, R), at rows u (B, R)."""
    return 1 - usage.gather(1, rows)


def filled(usage: Tensor, written: Tensor) -> Tensor:
    """Rule 4: u (B, N) after averaged write weights w (B, N). A constant for the steps that follow."""
    usage, written = usage.detach(), written.detach()
    return without_traces((usage + written - usage * written).clamp(0.0, 1.0))


def without_traces(usage: Tensor) -> Tensor:
    """Rule 5: u (B, N) with usage too small to tell from 0 set to 0."""
    return torch.where(usage > 16 * torch.finfo(usage.dtype).tiny, usage, 0.0)
