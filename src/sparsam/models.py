"""The six models behind one contract: LSTM, SAM and SDNC here, the dense ones in `sparsam.dense_models`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks, engines, indexes
from sparsam.composition import MODELS, MemoryModel, build
from sparsam.controllers.bypass import bypass_output
from sparsam.controllers.layer_norm import with_layer_norm
from sparsam.controllers.layers import layers_first, layers_last
from sparsam.controllers.padded import run_padded
from sparsam.memories.addressing import addressing
from sparsam.memories.description import SparseSizes
from sparsam.memories.sam import SAMMemory, SAMState
from sparsam.memories.sdnc import SDNCMemory, SDNCState
from sparsam.settings import setting, sparse_setting
from sparsam.state import State
from sparsam.trace import Access
from sparsam.transfer import sent

__all__ = ["DAM", "DNC", "LSTM", "MODELS", "NTM", "SAM", "SDNC", "LSTMState", "MemoryModel", "build"]


@dataclass(frozen=True, eq=False, repr=False)
class LSTMState(State):
    """h and c; there is no memory."""

    start: LSTMState | None = None


class LSTM(MemoryModel):
    """The LSTM baseline: controller and output layer of the other models, without a memory.

    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   y_t = output(h_t).

    Args:
        input_size, output_size, hidden_size: I, O and H.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference"; both are `nn.LSTM`, which runs on every device.
        num_layers, dropout: of `nn.LSTM`.
        device, dtype: of the parameters.
    """

    name = "lstm"
    state_class = LSTMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        batch_first: bool = False,
        engine: str = "auto",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        parts = ("lstm", num_layers, dropout, None, device, dtype)
        super().__init__(input_size, output_size, hidden_size, None, batch_first, engine, *parts)

    def _checked_state(self, state: Any, batch: int, like: Tensor) -> Any:
        """A state, or (h, c) as `nn.LSTM` takes them, (layers, B, H) each."""
        if isinstance(state, tuple) and len(state) == 2 and all(isinstance(v, Tensor) and v.dim() == 3 for v in state):
            hidden, cell = (layers_last(self.controller, value) for value in state)
            state = LSTMState(hidden, cell, start=self.initial_state(batch).start)
        return super()._checked_state(state, batch, like)

    def run(
        self, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, LSTMState, Sequence[Access]]:
        """The whole sequence in one call of `nn.LSTM`, the fair way to run a baseline; `run_padded` for lengths."""
        engines.plan(self)  # raises when the engine asked for has no LSTM
        carried = tuple(layers_first(self.controller, value) for value in (state.hidden, state.cell))
        if ends is None:
            hidden, after = self.controller(x, carried)
            y = self.answer(hidden)
        else:
            hidden, after = run_padded(self.controller, x, carried, ends)
            past = torch.arange(x.shape[0], device=x.device)[:, None] >= sent(ends, x.device)
            y = self.answer(hidden).masked_fill(past[..., None], 0.0)
        hidden, cell = (layers_last(self.controller, value).to(x.dtype) for value in after)  # half under autocast
        return y, dataclasses.replace(state, hidden=hidden, cell=cell), []


class SAM(MemoryModel):
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
        masked: masked content addressing (`sparsam.engines.reference.masking`; Csordas and Schmidhuber 2019).
        layer_norm: layer-normalised controller (`sparsam.controllers.layer_norm`; Franke et al. 2018).
        bypass_dropout: dropout between controller and output layer (`sparsam.controllers.bypass`; Franke et al. 2018).
        controller: "lstm", "gru", "feedforward", or an `nn.Module` of your own (`sparsam.controllers.own`).
        num_layers, dropout: of the controller.
        device, dtype: of the parameters.
    """

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState
    memory: SAMMemory

    memory_size, word_size, num_heads = sparse_setting("rows"), setting("memory.width"), setting("memory.heads")
    k, similarity, delta = sparse_setting("k"), sparse_setting("similarity"), sparse_setting("delta")
    index, masked = sparse_setting("index", indexes.resolve), setting("memory.addressing.masked")

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        found = indexes.resolve(index)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, index=found)
        memory, output = SAMMemory(sizes, addressing(masked)), bypass_output(bypass_dropout)
        parts = (with_layer_norm(controller, layer_norm), num_layers, dropout, output, device, dtype)
        super().__init__(input_size, output_size, hidden_size, memory, batch_first, engine, *parts)


class SDNC(SAM):
    """The Sparse Differentiable Neural Computer (section D): SAM whose heads can also follow the order of writes.

    `sparsam.memories.sdnc` has the equations. Rows of the interface: SAM's, then the read modes (3R, head by head
    backward, content, forward; a softmax), then with `allocation="free"` the free gates (R).

    Args:
        k_links: K_L, the entries kept in each row of N and P and in p.
        link_gradients: whether N, P and p are differentiated. They are constants by default, as in the paper; the
            previous read weights get their share of the gradient through f and b either way.
        allocation: "ring", the paper's least recently accessed words, or "free", the least used ones.
        The other arguments are those of `SAM`.
    """

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState

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
        index: Any = "linear",
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
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = SparseSizes(
            memory_size,
            word_size,
            num_heads,
            k,
            similarity,
            delta,
            checks.positive_int("k_links", k_links),
            link_gradients,
            allocation,
            indexes.resolve(index),
        )
        memory, output = SDNCMemory(sizes, addressing(masked)), bypass_output(bypass_dropout)
        parts = (with_layer_norm(controller, layer_norm), num_layers, dropout, output, device, dtype)
        MemoryModel.__init__(self, input_size, output_size, hidden_size, memory, batch_first, engine, *parts)


# Here, so that the registry lists the models in the order of the paper.
from sparsam.dense_models import DAM, DNC, NTM  # noqa: E402
