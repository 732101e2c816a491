"""The models that read and write all N words at every step: DAM, NTM and DNC, which the paper compares SAM with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sparsam.composition import MemoryModel
from sparsam.controllers.bypass import bypass_output
from sparsam.controllers.layer_norm import with_layer_norm
from sparsam.memories.addressing import addressing
from sparsam.memories.dam import DAMMemory, DAMState
from sparsam.memories.dnc import DNCMemory, DNCState
from sparsam.memories.freeing import freeing
from sparsam.memories.ntm import NTMMemory, NTMState
from sparsam.settings import setting


class DAM(MemoryModel):
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
        controller, num_layers, dropout, device, dtype: as in `SAM`.
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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = DAMMemory(memory_size, word_size, num_heads, similarity, discount, compile_step)
        parts = (controller, num_layers, dropout, None, device, dtype)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)


class NTM(MemoryModel):
    """The Neural Turing Machine (Graves 2014; section 2.3): R read heads and R write heads over N words.

    Rows of the interface, everywhere the read heads first and then the write heads, head by head: keys (2R·W),
    strengths (2R), gates (2R), shifts (2R·3), sharpening (2R); then, of the write heads alone, erase vectors (R·W) and
    add vectors (R·W), used as they are. The words of the first 'previous read' are the parameter `initial_read` (R, W),
    zero in a new model.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads and as many write heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        compile_step: run the memory's step through `torch.compile`, which needs a C++ compiler and tens of seconds at
            the first call of each shape, and is worth it for long runs on a CPU (docs/baselines.md); nothing is
            compiled on a GPU.
        controller, num_layers, dropout, device, dtype: as in `SAM`.
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
        compile_step: bool = False,
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = NTMMemory(memory_size, word_size, num_heads, compile_step)
        parts = (controller, num_layers, dropout, None, device, dtype)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
        self.initial_read = nn.Parameter(torch.zeros(num_heads, word_size, device=device, dtype=dtype))

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        # a copy, or a kept state would change with the parameter
        return {**super().start_fields(batch, like), "read": self.initial_read.expand(batch, -1, -1).clone()}


class DNC(MemoryModel):
    """The Differentiable Neural Computer (Graves 2016; section D): R read heads and one write head over N words.

    Rows of the interface, in the order of Graves 2016: read keys (R·W), read strengths (R), write key (W), write
    strength (1), erase vector (W), write vector (W), free gates (R), allocation gate (1), write gate (1), read modes
    (3R, head by head backward, content, forward); with `masked` a mask for each read key (R·W) and for the write key.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        masked: masked content addressing (`sparsam.engines.reference.masking`; Csordas and Schmidhuber 2019).
        deallocate: erase the words that are freed (`sparsam.engines.reference.deallocation`; the same paper).
        layer_norm: layer-normalised controller (`sparsam.controllers.layer_norm`; Franke et al. 2018).
        bypass_dropout: dropout between controller and output layer (`sparsam.controllers.bypass`; Franke et al. 2018).
        compile_step: as in `NTM`, for comparisons; here it does not pay.
        controller, num_layers, dropout, device, dtype: as in `SAM`.
    """

    name = "dnc"
    state_class = DNCState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")
    masked, deallocate = setting("memory.addressing.masked"), setting("memory.freeing.deallocate")

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
        controller: Any = "lstm",
        *,
        compile_step: bool = False,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = DNCMemory(memory_size, word_size, num_heads, addressing(masked), freeing(deallocate), compile_step)
        output = bypass_output(bypass_dropout)
        parts = (with_layer_norm(controller, layer_norm), num_layers, dropout, output, device, dtype)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
