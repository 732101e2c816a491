"""Dense Access Memory."""

from __future__ import annotations

import torch
from torch import nn

from sparsam.memories.dam import DAMMemory, DAMState
from sparsam.models.composition import MemoryModel, setting
from sparsam.start import Start


class DAM(MemoryModel[DAMState]):
    """Dense Access Memory (section 3.2): a controller with N words, all read and written at every step.

    Args:
        discount: lambda, the factor by which usage U^(1) decays at each step.
        engine: "auto", "reference" or "cuda".

    The other arguments are those of `SAM`.
    """

    name = "dam"
    state_class = DAMState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")
    similarity, discount = setting("memory.similarity"), setting("memory.discount")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        similarity: str = "cosine",
        discount: float = 0.99,
        batch_first: bool = False,
        engine: str = "auto",
        controller: str | nn.Module = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        start: str | Start = "open",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        memory = DAMMemory(memory_size, word_size, num_heads, similarity, discount)
        parts = (controller, num_layers, dropout, None, device, dtype, start)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
