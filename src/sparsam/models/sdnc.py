"""The Sparse Differentiable Neural Computer."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from sparsam import checks, indexes
from sparsam.controllers.bypass import bypass_output
from sparsam.controllers.layer_norm import with_layer_norm
from sparsam.memories.addressing import addressing
from sparsam.memories.description import SparseSizes
from sparsam.memories.sdnc import SDNCMemory, SDNCState
from sparsam.models.composition import MemoryModel, setting, sparse_setting
from sparsam.models.sam import SAM
from sparsam.start import Start
from sparsam.state import State


class SDNC(SAM[SDNCState]):
    """The Sparse Differentiable Neural Computer (section D): SAM whose heads can also follow the order of writes.

    `sparsam.memories.sdnc` has the equations. Rows of the interface: SAM's, then the read modes (3R, head by head
    backward, content, forward; a softmax), then with `allocation="free"` the free gates (R).

    Args:
        k_links: K_L, the entries kept in each row of N and P and in p.
        link_gradients: whether gradients flow through N, P and p. By default they do not, as in the paper; the previous
            read weights get their gradient through f and b either way.
        allocation: which word to write next: "ring", the least recently accessed one, as in the paper, or "free", the
            least used one.

    The other arguments are those of `SAM`.
    """

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState
    memory_class = SDNCMemory

    k_links, allocation = setting("memory.sizes.k_links"), setting("memory.sizes.allocation")
    link_gradients = sparse_setting("link_gradients")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: str | indexes.Index = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        k_links: int = 8,
        link_gradients: bool = False,
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        allocation: str = "ring",
        controller: str | nn.Module = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        start: str | Start = "open",
        backward_clip: float | None = None,
        erase: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        found, kept = indexes.resolve(index), checks.positive_int("k_links", k_links)
        links = (kept, link_gradients, allocation)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, *links, found, erase)
        memory, output = self.memory_class(sizes, addressing(masked)), bypass_output(bypass_dropout)
        kind = with_layer_norm(controller, layer_norm)
        parts = (kind, num_layers, dropout, output, device, dtype, start, backward_clip)
        MemoryModel.__init__(self, input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
