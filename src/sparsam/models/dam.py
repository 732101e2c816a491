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
        input_size: I, the width of x.
        output_size: O, the width of y.
        hidden_size: H, the width of the controller.
        memory_size: N, words in memory.
        word_size: W, numbers in a word.
        num_heads: R, access heads.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        discount: lambda, the factor by which usage U^(1) decays at each step.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference" or "cuda".
        controller: "lstm", "gru", "feedforward", or your own `nn.Module` (`sparsam.controllers.own`).
        num_layers: layers of the controller.
        dropout: dropout between the controller's layers.
        start: the initial weights: "open" (the model uses its memory from the first minibatches on), "plain" (as
            `nn.LSTM` and `nn.Linear` start), or a `sparsam.Start`.
        device: where the parameters are.
        dtype: floating-point type of the parameters.
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
