"""The memory of the Sparse Differentiable Neural Computer (section D): SAM's with sparse temporal links.

Writes, ring and usage are SAM's. After the write the links are updated (`sparsam.engines.reference.links` has every
rule), and a head reads w^R = pi_b b + pi_c c + pi_f f, of which the K largest entries are kept, not renormalised.

With `allocation="free"` usage decides which words are written anew instead of the ring (`sparsam.memories.allocation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import gather_words, weighted_sum
from sparsam.engines.reference.links import (
    averaged_writes,
    follow_sparse_links,
    largest_rows,
    no_links,
    update_links,
)
from sparsam.engines.reference.temporal import mix_modes
from sparsam.memories.sam import SAMMemory, SparseState
from sparsam.state import State


@dataclass(frozen=True, eq=False, repr=False)
class SDNCState(SparseState):
    """State of the SDNC: SAM's and the links, which are the engine's like the memory."""

    links: Any
    start: SDNCState | None = None


class SDNCMemory(SAMMemory):
    """SAM's memory whose heads can also follow the order in which words were written, backward or forward."""

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super().shapes(), "links": (self.rows, self.rows)}

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        return {**super().fresh(batch, initial, like), "links": no_links(batch, self.rows, like, self.sizes.k_links)}

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
