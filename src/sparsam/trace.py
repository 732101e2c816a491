"""A sparse record of what a model read and wrote when, for plots and for `sparsam ask`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

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

    def later(self, steps: int) -> Access:
        """The same access, `steps` steps later."""
        return replace(self, time=self.time + steps)

    def entries(self) -> tuple[Tensor, ...]:
        """Columns time, batch, head, row, weight, kind of the entries that name a row with a weight above 0."""
        rows, weights = self.rows.detach().cpu(), self.weights.detach().cpu()
        if rows.dim() == 3:
            rows, weights = rows[None], weights[None]
        at = ((rows >= 0) & (weights > 0)).nonzero(as_tuple=True)
        kind = torch.full((at[0].numel(),), self.kind, dtype=torch.int8, device="cpu")
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


@dataclass(frozen=True)
class Trace:
    """One entry per access, in order of time: equally long 1-D tensors, never N times T of them.

    A sparse model keeps every access; a dense one only the largest few weights per head and step. Within a step the
    writes come first, as the models do.
    """

    time: Tensor  # int64, step counted from 0
    batch: Tensor  # int64
    head: Tensor  # int64
    row: Tensor  # int64
    weight: Tensor  # float
    kind: Tensor  # int8: 0 a read, 1 a write

    @classmethod
    def of(cls, accesses: Iterable[Access]) -> Trace:
        """Collect the accesses of a run."""
        parts = [a.entries() for a in accesses]
        if not parts:
            none = torch.zeros(0, dtype=torch.int64, device="cpu")
            return cls(none, none, none, none, torch.zeros(0, device="cpu"), none.to(torch.int8))
        whole = cls(*(torch.cat(column) for column in zip(*parts)))
        return whole.select((2 * whole.time + (whole.kind == READ)).argsort(stable=True))

    def __len__(self) -> int:
        return self.time.numel()

    def select(self, keep: Tensor) -> Trace:
        """The entries where the bool tensor `keep` holds, or those that an index tensor names, in its order."""
        return Trace(*(getattr(self, field.name)[keep] for field in fields(self)))

    def reads(self, b: int | None = None) -> Trace:
        """The reads, of one batch element or of all."""
        return self._of_kind(READ, b)

    def writes(self, b: int | None = None) -> Trace:
        """The writes, of one batch element or of all."""
        return self._of_kind(WRITE, b)

    def _of_kind(self, kind: int, b: int | None) -> Trace:
        keep = self.kind == kind
        return self.select(keep if b is None else keep & (self.batch == b))
