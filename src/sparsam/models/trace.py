"""A sparse record of what a model read and wrote when, for plots and for `sparsam ask`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from sparsam.engines.reference.access import READ, WRITE, Access


@dataclass(frozen=True)
class Trace:
    """One entry per access, in order of time: equally long 1-D tensors, never N times T of them.

    A sparse model keeps every access; a dense one only the largest few weights per head and step.
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
            none = torch.zeros(0, dtype=torch.int64)
            return cls(none, none, none, none, torch.zeros(0), none.to(torch.int8))
        return cls(*(torch.cat(column) for column in zip(*parts)))

    def __len__(self) -> int:
        return self.time.numel()

    def select(self, keep: Tensor) -> Trace:
        """The entries where the bool tensor `keep` holds."""
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
