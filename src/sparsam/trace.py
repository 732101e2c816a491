"""A sparse record of what a model read and wrote when, for plots and for `sparsam ask`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

READ, WRITE = 0, 1
WRITTEN = 0.1  # a word counts as written from this weight on; less leaves it nearly as it was
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
class Summary:
    """How the sequences of a trace used the memory.

    A word counts as written from a weight of 0.1 on. What was written before the trace began is not known to it. Of a
    dense model a trace holds the largest weights alone, and so do these numbers.
    """

    rows_read: float  # distinct rows, a mean over the sequences
    rows_written: float
    read_weight: float  # the largest weight of a head's read, a mean over heads and steps: 1 reads a single word
    write_weight: float  # the sum of a step's write weights, a mean over steps: 0 writes nothing
    written_before: float  # the share of what was read that fell on words written at that step or before
    age: float  # steps since those words were written, a mean weighted as they were read

    def __str__(self) -> str:
        lines = (
            ("rows read", f"{self.rows_read:.1f} a sequence"),
            ("rows written", f"{self.rows_written:.1f} a sequence"),
            ("largest weight of a read", f"{self.read_weight:.3f}"),
            ("written in a step", f"{self.write_weight:.3f}"),
            ("read of written words", f"{self.written_before:.3f}"),
            ("age of what is read", f"{self.age:.1f} steps"),
        )
        return "\n".join(f"{name:26}{value}" for name, value in lines)


@dataclass(frozen=True)
class Trace:
    """What a model read and wrote: one entry per access, in order of time, as 1-D tensors of equal length.

    The trace of a sparse model has every access, that of a dense model only the largest weights per head and step.
    Within a step, writes come before reads.
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
        """The entries where a bool tensor is true, or those that an index tensor names, in its order."""
        return Trace(*(getattr(self, field.name)[keep] for field in fields(self)))

    def reads(self, b: int | None = None) -> Trace:
        """The reads of one batch element, or of all."""
        return self._of_kind(READ, b)

    def writes(self, b: int | None = None) -> Trace:
        """The writes of one batch element, or of all."""
        return self._of_kind(WRITE, b)

    def summary(self) -> Summary:
        """How the memory was used, in six numbers."""
        reads, writes = self.reads(), self.writes()
        words = writes.select(writes.weight >= WRITTEN)
        seen, written = self.reads_and_writes()
        found, weights, ages = written >= 0, seen.weight, seen.time - written
        sequences, steps = _distinct(self.batch), _distinct(self.time, self.batch)
        return Summary(
            rows_read=_share(_distinct(reads.batch, reads.row), sequences),
            rows_written=_share(_distinct(words.batch, words.row), sequences),
            read_weight=_share(reads._largest().sum(), _distinct(reads.time, reads.batch, reads.head)),
            write_weight=_share(writes.weight.sum(), steps),
            written_before=_share(weights[found].sum(), weights.sum()),
            age=_share((ages * weights)[found].sum(), weights[found].sum()),
        )

    def reads_and_writes(self) -> tuple[Trace, Tensor]:
        """The reads, word by word, and the step at which each one's word was last written, -1 for never."""
        seen = self.select((self.kind == READ) | (self.weight >= WRITTEN))
        if not len(seen):
            return seen, seen.time
        _, word = torch.stack([seen.batch, seen.row]).unique(dim=1, return_inverse=True)
        order = word.argsort(stable=True)  # word by word, in order of time
        seen, word = seen.select(order), word[order]
        place = torch.arange(len(seen), device="cpu")
        last = torch.where(seen.kind == WRITE, place, -1).cummax(dim=0).values  # the latest write up to here
        there = (last >= 0) & (word[last.clamp_min(0)] == word)
        written = torch.where(there, seen.time[last.clamp_min(0)], -1)
        reads = seen.kind == READ
        return seen.select(reads), written[reads]

    def _largest(self) -> Tensor:
        if not len(self):
            return self.weight
        _, place = torch.stack([self.time, self.batch, self.head]).unique(dim=1, return_inverse=True)
        return self.weight.new_zeros(int(place.max()) + 1).scatter_reduce(0, place, self.weight, "amax")

    def _of_kind(self, kind: int, b: int | None) -> Trace:
        keep = self.kind == kind
        return self.select(keep if b is None else keep & (self.batch == b))


def _distinct(*columns: Tensor) -> int:
    """How many different rows these columns have together."""
    return torch.stack(columns).unique(dim=1).shape[1]


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if float(whole) else 0.0
