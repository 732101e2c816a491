"""Dense Access Memory."""

from __future__ import annotations

from typing import Any

from sparsam.memories.dam import DAMMemory, DAMState
from sparsam.models.composition import MemoryModel, setting
from sparsam.start import Start


class DAM(MemoryModel[DAMState]):
    """Dense Access Memory (section 3.2): a controller with N words, all read and written at every step.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R access heads.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        discount: lambda of the usage U^(1).
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        compile_step: as in `NTM`, for comparisons; here it does not pay.
        controller, num_layers, dropout, start, device, dtype: as in `SAM`.
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
        controller: Any = "lstm",
        *,
        compile_step: bool = False,
        num_layers: int = 1,
        dropout: float = 0.0,
        start: str | Start = "open",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = DAMMemory(memory_size, word_size, num_heads, similarity, discount, compile_step)
        parts = (controller, num_layers, dropout, None, device, dtype, start)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
