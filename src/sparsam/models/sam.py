"""Sparse Access Memory, the paper's model."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from typing_extensions import TypeVar

from sparsam import indexes
from sparsam.controllers.bypass import bypass_output
from sparsam.controllers.layer_norm import with_layer_norm
from sparsam.memories.addressing import addressing
from sparsam.memories.description import SparseSizes
from sparsam.memories.sam import SAMMemory, SAMState, SparseState
from sparsam.models.composition import MemoryModel, setting, sparse_setting
from sparsam.start import Start
from sparsam.state import State

S = TypeVar("S", bound=SparseState, default=SAMState)


class SAM(MemoryModel[S]):
    """Sparse Access Memory (section 3): a controller with N words, of which K per head are read and R(K+1) written.

    Args:
        input_size: I, the width of x.
        output_size: O, the width of y.
        hidden_size: H, the width of the controller.
        memory_size: N, words in memory. A blank word costs nothing until it is touched.
        word_size: W, numbers in a word.
        num_heads: R, access heads. Every head reads and writes at every step.
        k: K, words that a head reads.
        index: how a head finds the K most similar words: "linear" (exact), the name of an approximate index, or an
            object such as `sparsam.Scan(checks=32)`.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        delta: a row counts as accessed when its weights exceed this.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", "native" or "cuda".
        masked: masked content addressing (Csordas and Schmidhuber 2019; `sparsam.memories.addressing`).
        layer_norm: layer normalisation in the controller (Franke et al. 2018; `sparsam.controllers.layer_norm`).
        bypass_dropout: dropout between controller and output layer (Franke et al. 2018; `sparsam.controllers.bypass`).
        controller: "lstm", "gru", "feedforward", or your own `nn.Module` (`sparsam.controllers.own`).
        num_layers: layers of the controller.
        dropout: dropout between the controller's layers.
        start: the initial weights: "open" (the model uses its memory from the first minibatches on), "plain" (as
            `nn.LSTM` and `nn.Linear` start), or a `sparsam.Start`.
        backward_clip: None for exact gradients. A number c limits each component of the gradient that a step passes to
            h and r of the step before it, to c times the largest one that came from the outputs
            (`sparsam.engines.clipping`).
        erase: heads erase what they have read before they write there, so that they can replace a word; each head gets
            an erase gate. The paper only adds.
        device: where the parameters are.
        dtype: floating-point type of the parameters.
    """

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState
    memory_class: ClassVar[type[SAMMemory]] = SAMMemory
    memory: SAMMemory

    memory_size, word_size, num_heads = sparse_setting("rows"), setting("memory.width"), setting("memory.heads")
    k, similarity, delta = sparse_setting("k"), sparse_setting("similarity"), sparse_setting("delta")
    index, masked = sparse_setting("index", indexes.resolve), setting("memory.addressing.masked")
    erase = setting("memory.sizes.erase")

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
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
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
        found = indexes.resolve(index)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, index=found, erase=erase)
        memory, output = self.memory_class(sizes, addressing(masked)), bypass_output(bypass_dropout)
        kind = with_layer_norm(controller, layer_norm)
        parts = (kind, num_layers, dropout, output, device, dtype, start, backward_clip)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
