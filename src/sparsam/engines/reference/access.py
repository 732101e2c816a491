"""What one step read or wrote: rows and weights per head, the raw material of a trace."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    def at(self, time: int, active: Tensor | None) -> Access:
        """This access at step `time`, by those batch elements where `active` (B,) holds."""
        rows = self.rows if active is None else torch.where(active[:, None, None], self.rows, -1)
        return replace(self, time=time, rows=rows)

    def entries(self) -> tuple[Tensor, ...]:
        """Columns time, batch, head, row, weight, kind of the entries that name a row with a weight above 0."""
        rows, weights = self.rows.detach().cpu(), self.weights.detach().cpu()
        if rows.dim() == 3:
            rows, weights = rows[None], weights[None]
        at = ((rows >= 0) & (weights > 0)).nonzero(as_tuple=True)
        kind = torch.full((at[0].numel(),), self.kind, dtype=torch.int8)
        return at[0] + self.time, at[1], at[2], rows[at].to(torch.int64), weights[at], kind


@dataclass(frozen=True)
class DenseAccess:
    """Dense weights (B, R, N) of one step, of which a record keeps the `top` largest per head."""

    kind: int
    weights: Tensor
    top: int = DENSE_TOP

    def at(self, time: int, active: Tensor | None) -> Access:
        """The record of this access; picked only here, as most runs are not recorded."""
        kept, rows = self.weights.detach().topk(min(self.top, self.weights.shape[-1]), dim=-1)
        return Access(self.kind, 0, rows, kept).at(time, active)
