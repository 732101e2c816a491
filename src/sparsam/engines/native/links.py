"""The links of a state of the native engine.

Their numbers are part of the memory's versions (`NativeMemory`), which take words, ring and links back together; what
is left to hold here is their place in the autograd graph, for `link_gradients=True`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native.memory import chosen


class NativeLinks:
    """Stands for N, P and p in a state; `graph` (B, 2N+1, N), without storage, is None where they are constants.

    Rows of `graph` are those of csrc/memory/links.h: N(i,.) at 2i, P(i,.) at 2i+1, p at 2N.
    """

    def __init__(self, graph: Tensor | None = None) -> None:
        self.graph = graph

    def detach(self) -> NativeLinks:
        return NativeLinks()

    def clone(self) -> NativeLinks:
        return NativeLinks(self.graph)

    def to(self, *args: Any, **kwargs: Any) -> NativeLinks:
        """The memory converts the numbers, and cuts them from the graph as it does so."""
        return NativeLinks()

    def blend(self, mask: Tensor, other: NativeLinks) -> NativeLinks:
        return NativeLinks(chosen(mask, other.graph, self.graph))

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.graph = None


torch.serialization.add_safe_globals([NativeLinks])
