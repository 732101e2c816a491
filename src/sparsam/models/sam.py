"""Sparse Access Memory, the paper's model."""

from __future__ import annotations

from typing import Any, ClassVar

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
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads, k: R access heads, each reads the K most similar words.
        index: how those are found: "linear" (exact) or the name or object of an approximate index.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        delta: a row counts as accessed when its weights exceed this.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", "native" or "cuda".
        masked: masked content addressing (`sparsam.memories.addressing`; Csordas and Schmidhuber 2019).
        layer_norm: layer-normalised controller (`sparsam.controllers.layer_norm`; Franke et al. 2018).
        bypass_dropout: dropout between controller and output layer (`sparsam.controllers.bypass`; Franke et al. 2018).
        controller: "lstm", "gru", "feedforward", or an `nn.Module` of your own (`sparsam.controllers.own`).
        num_layers, dropout: of the controller.
        start: how the weights begin: "open" so that the first minibatches write, keep and find words, "plain" as
            `nn.LSTM` and `nn.Linear` begin, or numbers of your own (`sparsam.Start`).
        erase: heads erase what they read before they write there (`sparsam.memories.sam.erased`), so that a stored word
            can be replaced; the interface gets a gate for each head. The paper only adds.
        backward_clip: None for exact gradients, or how many times the largest gradient from the outputs a step may hand
            back to h and r of the step before, number by number (`sparsam.engines.clipping`).
        device, dtype: of the parameters.
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
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        start: str | Start = "open",
        backward_clip: float | None = None,
        erase: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        found = indexes.resolve(index)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, index=found, erase=erase)
        memory, output = self.memory_class(sizes, addressing(masked)), bypass_output(bypass_dropout)
        parts = (
            with_layer_norm(controller, layer_norm),
            num_layers,
            dropout,
            output,
            device,
            dtype,
            start,
            backward_clip,
        )
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)
