"""The SDNC's links on the GPU: K_L columns and weights to a row."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsam.state import blended, converted


@dataclass(frozen=True, eq=False)
class SparseLinks:
    """N, P and p of every batch element as lists; column -1 for no entry. A value like every state."""

    before_columns: Tensor  # N (B, N, K_L) int32
    before_weights: Tensor
    after_columns: Tensor  # P (B, N, K_L)
    after_weights: Tensor
    now_columns: Tensor  # p (B, K_L)
    now_weights: Tensor

    engine = "cuda"

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @property
    def shape(self) -> tuple[int, int, int]:
        batch, size, _ = self.before_columns.shape
        return batch, size, size

    def detach(self) -> SparseLinks:
        return self  # constants for the gradient

    def clone(self) -> SparseLinks:
        return SparseLinks(*(value.clone() for value in self.tensors()))

    def to(self, *args: Any, **kwargs: Any) -> SparseLinks:
        return SparseLinks(*(converted(value, *args, **kwargs) for value in self.tensors()))

    def blend(self, mask: Tensor, other: SparseLinks) -> SparseLinks:
        pairs = zip(other.tensors(), self.tensors())
        return SparseLinks(*(blended(mask, theirs, ours) for theirs, ours in pairs))


torch.serialization.add_safe_globals([SparseLinks])


def no_sparse_links(batch: int, size: int, k_links: int, like: Tensor) -> SparseLinks:
    """N_0, P_0 and p_0: no entry anywhere, and no storage of their own until a call writes them."""
    columns = torch.full((1, 1, 1), -1, dtype=torch.int32, device=like.device)
    weights = like.new_zeros(1, 1, 1)
    rows = (columns.expand(batch, size, k_links), weights.expand(batch, size, k_links))
    return SparseLinks(*rows, *rows, rows[0][:, 0], rows[1][:, 0])
