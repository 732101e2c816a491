"""The Neural Turing Machine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sparsam.memories.ntm import NTMMemory, NTMState
from sparsam.models.composition import MemoryModel, setting
from sparsam.start import Start


class NTM(MemoryModel[NTMState]):
    """The Neural Turing Machine (Graves 2014; section 2.3): R read heads and R write heads over N words.

    Rows of the interface, everywhere the read heads first and then the write heads, head by head: keys (2R·W),
    strengths (2R), gates (2R), shifts (2R·3), sharpening (2R); then, of the write heads alone, erase vectors (R·W) and
    add vectors (R·W), used as they are. The words of the first 'previous read' are the parameter `initial_read` (R, W),
    zero in a new model.

    Args:
        num_heads: R, read heads and as many write heads.
        engine: "auto", "reference" or "cuda".

    The other arguments are those of `SAM`.
    """

    name = "ntm"
    state_class = NTMState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
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
        memory = NTMMemory(memory_size, word_size, num_heads)
        parts = (controller, num_layers, dropout, None, device, dtype, start)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
        self.initial_read = nn.Parameter(torch.zeros(num_heads, word_size, device=device, dtype=dtype))

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        # a copy, or a kept state would change with the parameter
        return {**super().start_fields(batch, like), "read": self.initial_read.expand(batch, -1, -1).clone()}
