"""What one step read or wrote: rows and weights per head, the raw material of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

READ, WRITE = 0, 1
DENSE_TOP = 8  # weights kept per head and step of a dense model, so that a trace never holds N times T


@dataclass(frozen=True)
class Access:
    """Accesses of one kind at one step, or at T steps when the tensors carry a leading time dimension."""

    kind: int
    time: int  # step of the (first) access
    rows: Tensor  # ([T,] B, R, K) int64, -1 for none
    weights: Tensor  # ([T,] B, R, K)

    def entries(self) -> tuple[Tensor, ...]:
        """Columns time, batch, head, row, weight, kind of the entries that name a row with a weight above 0."""
        rows, weights = self.rows.detach().cpu(), self.weights.detach().cpu()
        if rows.dim() == 3:
            rows, weights = rows[None], weights[None]
        at = ((rows >= 0) & (weights > 0)).nonzero(as_tuple=True)
        kind = torch.full((at[0].numel(),), self.kind, dtype=torch.int8)
        return at[0] + self.time, at[1], at[2], rows[at].to(torch.int64), weights[at], kind


def dense_access(kind: int, time: int, weights: Tensor, top: int = DENSE_TOP) -> Access:
    """The `top` largest of dense weights (B, R, N)."""
    kept, rows = weights.detach().topk(min(top, weights.shape[-1]), dim=-1)
    return Access(kind, time, rows, kept)
