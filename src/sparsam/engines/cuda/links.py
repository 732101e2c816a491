"""The SDNC's links on the GPU: K_L columns and weights to a row, of the rows that the memory has there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.cuda.arena import Places, cut, placed
from sparsam.memories.sdnc import DenseLinks
from sparsam.state import TensorStore


@dataclass(frozen=True, eq=False, repr=False)
class SparseLinks(TensorStore):
    """N, P and p of every batch element as lists; column -1 for no entry. A value like every state."""

    predecessor_columns: Tensor  # N (B, M, K_L) int32
    predecessor_weights: Tensor
    successor_columns: Tensor  # P (B, M, K_L)
    successor_weights: Tensor
    precedence_columns: Tensor  # p (B, K_L)
    precedence_weights: Tensor
    rows: int  # N words in all; rows from M on have no links

    engine = "cuda"

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self)[:6])

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.predecessor_columns.shape[0], self.rows, self.rows

    @property
    def k_links(self) -> int:
        return self.predecessor_columns.shape[2]

    def _with(self, tensors: Iterable[Tensor]) -> SparseLinks:
        every: Any = (*tensors, self.rows)
        return SparseLinks(*every)

    def detach(self) -> SparseLinks:
        if not any(value.requires_grad for value in self.weights()):
            return self
        return self._with(value.detach() for value in self.tensors())

    def columns(self) -> tuple[Tensor, ...]:
        return self.predecessor_columns, self.successor_columns, self.precedence_columns

    def weights(self) -> tuple[Tensor, ...]:
        return self.predecessor_weights, self.successor_weights, self.precedence_weights

    def with_weights(self, predecessors: Tensor, successors: Tensor, precedence: Tensor) -> SparseLinks:
        return dataclasses.replace(
            self, predecessor_weights=predecessors, successor_weights=successors, precedence_weights=precedence
        )

    def blend(self, mask: Tensor, other: SparseLinks) -> Any:
        rows = max(self.predecessor_columns.shape[1], other.predecessor_columns.shape[1])
        return TensorStore.blend(self.grown(rows), mask, other.grown(rows))

    @classmethod
    def cat(cls, stores: Sequence[SparseLinks]) -> SparseLinks:
        rows = max(store.predecessor_columns.shape[1] for store in stores)
        parts = zip(*(store.grown(rows).tensors() for store in stores))
        return stores[0]._with(torch.cat(part) for part in parts)

    def describe(self) -> str:
        return f"cuda links, {self.k_links} to a row"

    def dense(self, memory: Any = None) -> DenseLinks:
        links = self.grown(self.rows)
        pairs = (
            (links.predecessor_columns, links.predecessor_weights),
            (links.successor_columns, links.successor_weights),
            (links.precedence_columns, links.precedence_weights),
        )
        predecessors, successors, precedence = (scattered(c, w, self.rows) for c, w in pairs)
        return DenseLinks(predecessors, successors, precedence, self.k_links)

    def grown(self, rows: int) -> SparseLinks:
        more = max(rows - self.predecessor_columns.shape[1], 0)
        if not more:
            return self
        values = (-1, 0.0, -1, 0.0)
        tensors = [F.pad(value, (0, 0, 0, more), value=blank) for value, blank in zip(self.tensors()[:4], values)]
        return self._with([*tensors, self.precedence_columns, self.precedence_weights])

    def working_copy(self, rows: int, apart: bool = False) -> SparseLinks:
        """What a call writes to; `apart`: no two tensors in one piece of memory."""
        columns, weights = self.predecessor_columns, self.predecessor_weights
        if columns.stride(1) == 0 and weights.stride(1) == 0 and not apart:  # no entry anywhere
            batch, there, k_links = columns.shape
            places, count = _blank_places(batch, max(rows, there), k_links)
            empty = cut(torch.full((count,), -1, dtype=torch.int32, device=columns.device), places[True]).values()
            blank = cut(torch.zeros(count, dtype=torch.int32, device=columns.device), places[False]).values()
            return self._with(tensor for pair in zip(empty, blank) for tensor in pair)
        grown = self.grown(rows).tensors()
        return self._with(value.detach().clone(memory_format=torch.contiguous_format) for value in grown)


torch.serialization.add_safe_globals([SparseLinks])


@lru_cache(maxsize=256)
def _blank_places(batch: int, rows: int, k_links: int) -> tuple[dict[bool, Places], int]:
    """Places of the columns (True), and of the weights (False), in a piece of memory each."""
    shapes = {
        "predecessors": (batch, rows, k_links),
        "successors": (batch, rows, k_links),
        "precedence": (batch, k_links),
    }
    found = {whole: placed({name: (shape, whole) for name, shape in shapes.items()}) for whole in (True, False)}
    return {whole: places for whole, (places, _) in found.items()}, found[True][1]


def no_sparse_links(batch: int, there: int, rows: int, k_links: int, like: Tensor) -> SparseLinks:
    """N_0, P_0 and p_0: no entry anywhere, and no storage of their own until a call writes them."""
    columns = torch.full((1, 1, 1), -1, dtype=torch.int32, device=like.device)
    weights = like.new_zeros(1, 1, 1, dtype=torch.float32)
    entries = (columns.expand(batch, there, k_links), weights.expand(batch, there, k_links))
    return SparseLinks(*entries, *entries, entries[0][:, 0], entries[1][:, 0], rows)


def scattered(columns: Tensor, weights: Tensor, rows: int) -> Tensor:
    """Lists of columns (..., K_L), -1 for none, and their weights as rows of a matrix (..., N)."""
    kept = weights * (columns >= 0)
    return weights.new_zeros(*weights.shape[:-1], rows).scatter_add(-1, columns.clamp_min(0).long(), kept)


def listed(matrix: Tensor, k_links: int) -> tuple[Tensor, Tensor]:
    """The K_L largest entries above 0 of every row of a matrix (..., N), as columns, -1 for none, and weights."""
    columns = matrix.detach().sort(dim=-1, descending=True, stable=True).indices[..., :k_links]
    weights = matrix.gather(-1, columns)
    short = max(k_links - matrix.shape[-1], 0)
    weights, columns = F.pad(weights, (0, short)), F.pad(columns, (0, short), value=-1)
    return torch.where(weights > 0, columns, -1).to(torch.int32), weights


def from_dense_links(links: DenseLinks) -> SparseLinks:
    n_columns, n_weights = listed(links.predecessors, links.k_links)
    p_columns, p_weights = listed(links.successors, links.k_links)
    columns, weights = listed(links.precedence, links.k_links)
    return SparseLinks(n_columns, n_weights, p_columns, p_weights, columns, weights, links.shape[-1])
