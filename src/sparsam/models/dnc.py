"""The Differentiable Neural Computer."""

from __future__ import annotations

import torch
from torch import nn

from sparsam.controllers.bypass import bypass_output
from sparsam.controllers.layer_norm import with_layer_norm
from sparsam.memories.addressing import addressing
from sparsam.memories.dnc import DNCMemory, DNCState
from sparsam.models.composition import MemoryModel, setting
from sparsam.start import Start


class DNC(MemoryModel[DNCState]):
    """The Differentiable Neural Computer (Graves 2016; section D): R read heads and one write head over N words.

    Rows of the interface, in the order of Graves 2016: read keys (R·W), read strengths (R), write key (W), write
    strength (1), erase vector (W), write vector (W), free gates (R), allocation gate (1), write gate (1), read modes
    (3R, head by head backward, content, forward); with `masked` a mask for each read key (R·W) and for the write key.

    Args:
        num_heads: R, read heads.
        engine: "auto", "reference" or "cuda".
        deallocate: erase the words that are freed (Csordas and Schmidhuber 2019; `sparsam.memories.dnc`).

    The other arguments are those of `SAM`.
    """

    name = "dnc"
    state_class = DNCState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")
    masked, deallocate = setting("memory.addressing.masked"), setting("memory.deallocate")

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
        masked: bool = False,
        deallocate: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        controller: str | nn.Module = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        start: str | Start = "open",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        memory = DNCMemory(memory_size, word_size, num_heads, addressing(masked), deallocate)
        output = bypass_output(bypass_dropout)
        parts = (with_layer_norm(controller, layer_norm), num_layers, dropout, output, device, dtype, start)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
