"""The memory of a state of the native engine: handles to versions of buffers that the core writes in place.

A buffer is written in place, yet a state is a value: each state refers to its own version of the buffer, and the core
brings the buffer back to whichever version is asked for (csrc/memory/timeline.h). In the autograd graph a memory is
stood for by its link, a tensor of the memory's shape without storage of its own, whose gradient is sparse.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native.core import native as _native
from sparsam.engines.native.index import initial_words
from sparsam.state import DenseMemory


def stand_in(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor of zeros with the storage of one number: what a memory (B, N, W) is in the autograd graph."""
    return like.new_zeros(()).expand(shape)


def sparse_rows(at: Tensor, words: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A sparse tensor of whole words: `at` (dimensions, n) names them, `words` is (n, W)."""
    return torch.sparse_coo_tensor(at, words, shape, check_invariants=False)


class _Begin(torch.autograd.Function):
    """From a user's initial memory (N, W) or (B, N, W) to the link; a leaf gets a sparse gradient."""

    @staticmethod
    def forward(ctx: Any, memory: Tensor, batch: int, leaf: bool) -> Tensor:
        ctx.shape, ctx.leaf = tuple(memory.shape), leaf
        return stand_in(memory, (batch, *memory.shape[-2:]))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_link: Tensor) -> tuple[Any, ...]:
        d_link = d_link.coalesce()
        at = d_link.indices()
        if len(ctx.shape) == 2:  # one memory shared by the batch
            at = at[1:]
        gradient = sparse_rows(at, d_link.values(), ctx.shape).coalesce()
        # Operations that made the memory expect a dense gradient; a leaf accumulates sparse ones.
        return gradient if ctx.leaf else gradient.to_dense(), None, None


class _Choose(torch.autograd.Function):
    """The link of a blend: each batch element's gradient goes to the memory that it came from."""

    @staticmethod
    def forward(ctx: Any, mask: Tensor, where_true: Tensor | None, where_false: Tensor | None, like: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return stand_in(like, tuple(like.shape))  # type: ignore[arg-type]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_link: Tensor) -> tuple[Any, ...]:
        (mask,) = ctx.saved_tensors
        d_link = d_link.coalesce()
        chosen = mask[d_link.indices()[0]]
        parts = [
            sparse_rows(d_link.indices()[:, keep], d_link.values()[keep], tuple(d_link.shape)) if needed else None
            for keep, needed in ((chosen, ctx.needs_input_grad[1]), (~chosen, ctx.needs_input_grad[2]))
        ]
        return None, *parts, None


def chosen(mask: Tensor, where_true: Tensor | None, where_false: Tensor | None) -> Tensor | None:
    """Per batch element one of two stand-ins; None stands for a constant."""
    like = where_true if where_true is not None else where_false
    return None if like is None else _Choose.apply(mask, where_true, where_false, like.detach())


class NativeMemory:
    """Versions of the memories of a batch, None for one that no call has touched yet.

    A version holds words and ring, and the links too where the model has them (`k_links` > 0); with `allocation`
    "free" it holds usage, and the ring is left alone.
    """

    engine = "native"

    def __init__(
        self,
        rows: int,
        width: int,
        dtype: torch.dtype,
        versions: list[Any],
        initial: Tensor | None,
        bases: list[Any],
        k_links: int = 0,
        allocation: str = "ring",
    ) -> None:
        self.rows, self.width, self.dtype, self.k_links, self.allocation = rows, width, dtype, k_links, allocation
        self.versions = versions
        self.initial = initial  # the user's M_0, (N, W) or (B, N, W)
        self.bases = bases  # M_0 as the core holds it, one per batch element, None when blank
        self.link: Tensor | None = None

    def _replaced(self, versions: list[Any], link: Tensor | None) -> NativeMemory:
        sizes = (self.rows, self.width, self.dtype)
        memory = NativeMemory(*sizes, versions, self.initial, self.bases, self.k_links, self.allocation)
        memory.link = link
        return memory

    @property
    def _suffix(self) -> str:
        return "32" if self.dtype == torch.float32 else "64"

    def check(self, rows: int, width: int, k_links: int = 0, allocation: str = "ring") -> None:
        """Refuse a memory of another model's size or allocation."""
        if self.k_links != k_links:
            raise ValueError(f"state: expected links with K_L = {k_links}, got K_L = {self.k_links}")
        if self.allocation != allocation:
            raise ValueError(f"state: expected one of allocation={allocation!r}, got one of {self.allocation!r}")
        if (self.rows, self.width) != (rows, width):
            raise ValueError(f"state: expected a memory (N, W) = ({rows}, {width}), got ({self.rows}, {self.width})")

    def materialised(self) -> list[Any]:
        """A version for every batch element; blank ones are made anew at each call, so a fresh state is reusable."""
        fresh = getattr(_native, f"Version{self._suffix}").fresh
        return [
            fresh(self.rows, self.width, base, self.k_links, self.allocation == "free") if v is None else v
            for v, base in zip(self.versions, self.bases)
        ]

    def advanced(self, versions: list[Any], link: Tensor | None) -> NativeMemory:
        """The memory after a call."""
        return self._replaced(list(versions), link)

    def detach(self) -> NativeMemory:
        return self._replaced(self.versions, None)

    def clone(self) -> NativeMemory:
        return self._replaced([None if v is None else v.copied() for v in self.versions], self.link)

    def blend(self, mask: Tensor, other: NativeMemory) -> NativeMemory:
        """Per batch element, the other memory where `mask` holds."""
        taken = mask.tolist()
        versions = [theirs if take else ours for take, ours, theirs in zip(taken, self.versions, other.versions)]
        return self._replaced(versions, chosen(mask, other.link, self.link))

    def changed_rows(self, b: int) -> tuple[Tensor, Tensor]:
        """Rows (ascending) and words of element b that differ from the initial memory."""
        rows, words = self._written(b)
        if self.initial is None:
            differs = (words != 0).any(dim=-1)
        else:
            start = self.initial.detach() if self.initial.dim() == 2 else self.initial.detach()[b]
            differs = (words != start[rows]).any(dim=-1)
        return rows[differs], words[differs]

    def _written(self, b: int) -> tuple[Tensor, Tensor]:
        version = self.versions[b]
        if version is None:
            return torch.zeros(0, dtype=torch.int64), torch.zeros(0, self.width, dtype=self.dtype)
        rows, words = version.written_rows()
        return torch.from_numpy(rows), torch.from_numpy(words)

    def _recency(self, b: int) -> list[int]:
        version = self.versions[b]
        return [] if version is None else version.recency()

    def link_rows(self, b: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of the links of element b that are not empty: their numbers, columns (n, K_L) and weights (n, K_L).

        N(i,.) has number 2i, P(i,.) 2i+1 and p 2N; a column of -1 is no entry.
        """
        version = self.versions[b]
        if version is None:
            shape = (0, self.k_links)
            none = torch.zeros(shape, dtype=torch.int32)
            return torch.zeros(0, dtype=torch.int64), none, torch.zeros(shape, dtype=self.dtype)
        ids, columns, weights = version.link_rows()
        return torch.from_numpy(ids), torch.from_numpy(columns), torch.from_numpy(weights)

    def usage_rows(self, b: int) -> tuple[Tensor, Tensor]:
        """Rows of element b of usage above 0, ascending, and their usage; of a memory with allocation "free"."""
        version = self.versions[b]
        if version is None:
            return torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=self.dtype)
        rows, values = version.usage_rows()
        return torch.from_numpy(rows), torch.from_numpy(values)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """This memory where nothing changes; on another device or in another dtype, all its words (`DenseMemory`)."""
        device, dtype = torch._C._nn._parse_to(*args, **kwargs)[:2]
        if (device is None or device.type == "cpu") and dtype in (None, self.dtype):
            return self
        if device is None or device.type == "cpu":
            if dtype not in (torch.float32, torch.float64):
                raise ValueError(f"dtype: the native engine holds float32 or float64, got {dtype}")
            return self._converted(dtype)
        if self.k_links:
            raise ValueError(f"device: an SDNC's state of the native engine stays on the CPU, got {device}")
        return self.dense().to(*args, **kwargs)

    def _converted(self, dtype: torch.dtype) -> NativeMemory:
        initial = None if self.initial is None else self.initial.detach().to(dtype)
        blank = torch.zeros((), dtype=dtype)
        shape = (len(self.versions), self.rows, self.width)
        memory = fresh_memory(*shape, initial, blank, self.k_links, self.allocation)
        memory._restore(self._parts(), dtype)
        return memory

    def _parts(self) -> list[tuple[Any, ...]]:
        """Per batch element what a version consists of: rows and words, recency, rows of links, and usage."""
        return [
            (
                *self._written(b),
                self._recency(b),
                *(self.link_rows(b) if self.k_links else ()),
                *(self.usage_rows(b) if self.allocation == "free" else ()),
            )
            for b in range(len(self.versions))
        ]

    def dense(self) -> DenseMemory:
        """All words of every batch element, as the reference engine keeps them."""
        batch = len(self.versions)
        start = torch.zeros(self.rows, self.width, dtype=self.dtype) if self.initial is None else self.initial.detach()
        words = start.expand(batch, self.rows, self.width).clone()
        last_access = torch.zeros(batch, self.rows, dtype=torch.int64)
        for b in range(batch):
            rows, values = self._written(b)
            words[b, rows] = values
            recency = torch.tensor(self._recency(b), dtype=torch.int64)
            last_access[b, recency] = torch.arange(1, len(recency) + 1)
        return DenseMemory(words, last_access, last_access.amax(dim=1), start)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "width": self.width,
            "dtype": self.dtype,
            "k_links": self.k_links,
            "allocation": self.allocation,
            "initial": None if self.initial is None else self.initial.detach(),
            "parts": self._parts(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        blank = torch.zeros((), dtype=saved["dtype"])
        made = fresh_memory(
            len(saved["parts"]),
            saved["rows"],
            saved["width"],
            saved["initial"],
            blank,
            saved["k_links"],
            saved.get("allocation", "ring"),
        )
        self.__dict__.update(made.__dict__)
        self._restore(saved["parts"], saved["dtype"])

    def _restore(self, parts: list[tuple[Any, ...]], dtype: torch.dtype) -> None:
        make = getattr(_native, f"Version{self._suffix}").restored
        sizes = (self.rows, self.width)
        kinds = (self.k_links, self.allocation == "free")
        for b, (rows, words, recency, *more) in enumerate(parts):
            if not len(rows) and not len(recency):
                continue
            words = words.to(dtype).contiguous()
            version = make(*sizes, self.bases[b], rows.contiguous(), words, list(recency), *kinds)
            if self.k_links:
                ids, columns, weights = more[:3]
                version.restore_links(ids.contiguous(), columns.contiguous(), weights.to(dtype).contiguous())
            if self.allocation == "free":
                used, usage = more[3:]
                version.restore_usage(used.contiguous(), usage.to(dtype).contiguous())
            self.versions[b] = version


def fresh_memory(
    batch: int,
    rows: int,
    width: int,
    initial: Tensor | None,
    like: Tensor,
    k_links: int = 0,
    allocation: str = "ring",
) -> NativeMemory:
    """What a sequence starts from: nothing is allocated until a call touches it."""
    bases: list[Any] = [None] * batch
    if initial is not None:
        made = initial_words(initial)
        bases = made * batch if initial.dim() == 2 else made
    memory = NativeMemory(rows, width, like.dtype, [None] * batch, initial, bases, k_links, allocation)
    if initial is not None and initial.requires_grad and torch.is_grad_enabled():
        memory.link = _Begin.apply(initial, batch, initial.is_leaf)
    return memory


torch.serialization.add_safe_globals([NativeMemory])
