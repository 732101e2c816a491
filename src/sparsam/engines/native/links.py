"""The links of a state of the native engine.

Their numbers are part of the memory's versions (`NativeMemory`), which take words, ring and links back together; what
is left to hold here is their place in the autograd graph, for `link_gradients=True`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native import placeholders
from sparsam.engines.native.memory import NativeMemory
from sparsam.memories.sdnc import DenseLinks


class NativeLinks:
    """Stands for N, P and p in a state; `placeholder` (B, 2N+1, N), without storage, is None where they are constants.

    Rows of `placeholder` are those of csrc/memory/links.h: N(i,.) at 2i, P(i,.) at 2i+1, p at 2N.
    """

    engine = "native"
    leaf: Any = None  # (B, 0), the batch as `sparsam.pytrees` shows it

    def __init__(self, batch: int, placeholder: Tensor | None = None) -> None:
        self.batch, self.placeholder = batch, placeholder

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch size alone; the rows are counted by the memory."""
        return (self.batch,)

    def describe(self) -> str:
        return "native links, in the memory's versions"

    def detach(self) -> NativeLinks:
        return NativeLinks(self.batch)

    def clone(self) -> NativeLinks:
        return NativeLinks(self.batch, self.placeholder)

    def to(self, *args: Any, **kwargs: Any) -> NativeLinks:
        """The memory converts the numbers; gradients still flow."""
        device, dtype = torch._C._nn._parse_to(*args, **kwargs)[:2]
        if device is not None and device.type != "cpu":
            raise ValueError(
                f"device: expected the CPU for links of the native engine, got {device}; "
                "convert the state first with state.to(engine='cuda') or state.to(engine='reference')"
            )
        if self.placeholder is None or dtype in (None, self.placeholder.dtype):
            return self
        return NativeLinks(self.batch, placeholders.cast(self.placeholder, dtype))

    def blend(self, mask: Tensor, other: NativeLinks) -> NativeLinks:
        return NativeLinks(self.batch, placeholders.chosen(mask, other.placeholder, self.placeholder))

    def select(self, index: Tensor) -> NativeLinks:
        return NativeLinks(index.numel(), placeholders.selected(self.placeholder, index))

    @classmethod
    def cat(cls, stores: Sequence[NativeLinks]) -> NativeLinks:
        sizes = [store.batch for store in stores]
        return cls(sum(sizes), placeholders.joined([store.placeholder for store in stores], sizes))

    def dense(self, memory: NativeMemory) -> DenseLinks:
        """N, P and p as matrices, of the memory that holds their numbers."""
        batch, rows, _ = memory.shape
        flat = torch.zeros(batch, 2 * rows + 1, rows, dtype=memory.kind.dtype, device="cpu")
        for b in range(batch):
            ids, columns, weights = memory.link_rows(b)
            at, entry = (columns >= 0).nonzero(as_tuple=True)
            flat[b, ids[at], columns[at, entry].long()] = weights[at, entry]
        if self.placeholder is not None:
            flat = LinksToDense.apply(self.placeholder, flat)
        return DenseLinks(flat[:, 0:-1:2], flat[:, 1:-1:2], flat[:, -1], memory.kind.k_links)

    def __getstate__(self) -> dict[str, Any]:
        return {"batch": self.batch}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        batch = saved.get("batch") if isinstance(saved, dict) else None
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 0:
            raise ValueError(f"state.links.batch: expected a number of batch elements, got {batch!r}")
        self.batch, self.placeholder = batch, None


class LinksToDense(torch.autograd.Function):
    """From the placeholder to all entries, whose numbers are given."""

    @staticmethod
    def forward(ctx: Any, placeholder: Tensor, entries: Tensor) -> Tensor:
        ctx.save_for_backward(entries != 0)
        return entries.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (there,) = ctx.saved_tensors  # an entry that is not there has no gradient: links are chosen, not learned
        return (gradient * there).to_sparse(), None


def links_from_dense(links: DenseLinks) -> Tensor:
    """The placeholder of matrices N and P (B, N, N) and p (B, N)."""
    batch, rows = links.precedence.shape

    def back(gradient: Tensor, _: Any) -> tuple[Tensor, ...]:
        flat = gradient.to_dense()
        return flat[:, 0:-1:2], flat[:, 1:-1:2], flat[:, -1]

    given = (links.predecessors, links.successors, links.precedence)
    return placeholders.derived(back, (batch, 2 * rows + 1, rows), given[0].dtype, None, *given)  # type: ignore[no-any-return]


def link_parts(links: DenseLinks) -> list[dict[str, Tensor]]:
    """Links of matrices as the core's versions hold them: the K_L largest entries of every row that is not empty."""
    found = []
    matrices = (links.predecessors, links.successors, links.precedence)
    predecessors, successors, precedence = (value.detach().cpu() for value in matrices)
    for b in range(precedence.shape[0]):
        flat = torch.stack([predecessors[b], successors[b]], dim=1).flatten(0, 1)
        flat = torch.cat([flat, precedence[b][None]])
        ids = (flat != 0).any(dim=-1).nonzero().squeeze(-1)
        weights, columns = flat[ids].sort(dim=-1, descending=True, stable=True)
        weights, columns = weights[:, : links.k_links].clone(), columns[:, : links.k_links].to(torch.int32)
        short = links.k_links - weights.shape[1]
        if short > 0:  # fewer rows than K_L
            weights = torch.nn.functional.pad(weights, (0, short))
            columns = torch.nn.functional.pad(columns, (0, short), value=-1)
        columns = torch.where(weights != 0, columns, -1)
        found.append({"link_ids": ids, "link_columns": columns.contiguous(), "link_weights": weights.contiguous()})
    return found


torch.serialization.add_safe_globals([NativeLinks])
