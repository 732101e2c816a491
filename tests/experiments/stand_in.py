"""A plain stand-in for `sparsam.SparseMemory`: every step writes its words to fresh rows, nothing is ever overwritten.

The interface is the layer's, its memory is not: a read is the K most similar of all words so far, so a whole sequence
is one masked top-K. It serves tests of what is built around the layer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsam.experiments.baselines.convolution import ShortConvolution


class StandInState(NamedTuple):
    words: Tensor  # (B, T R, W) so far
    recent: Tensor


class StandIn(nn.Module):
    def __init__(
        self,
        input_size: int,
        output_size: int | None = None,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        links: int = 0,
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        conv: int = 4,
        batch_first: bool = False,
        engine: str = "auto",
    ) -> None:
        super().__init__()
        self.num_heads, self.word_size, self.k = num_heads, word_size, k
        self.conv = ShortConvolution(input_size, conv)
        self.interface = nn.Linear(input_size, 2 * num_heads * word_size + 3 * num_heads)
        self.output = nn.Linear(input_size + num_heads * word_size, output_size or input_size)

    def forward(self, x: Tensor, state: StandInState | None = None) -> tuple[Tensor, StandInState]:
        steps = len(x)
        heads, width = self.num_heads, self.word_size
        mixed, recent = self.conv(x, None if state is None else state.recent)
        q, a, gates = self.interface(mixed).split([heads * width, heads * width, 3 * heads], -1)
        beta, alpha, _ = gates.chunk(3, -1)
        own = torch.sigmoid(alpha)[..., None] * a.unflatten(-1, (heads, width))  # (T, B, R, W)
        words = own.permute(1, 0, 2, 3).flatten(1, 2)
        if state is not None:
            words = torch.cat([state.words, words], 1)
        queries = q.unflatten(-1, (heads, width)).permute(1, 2, 0, 3)  # (B, R, T, W)
        lengths = torch.linalg.vector_norm(queries, dim=-1, keepdim=True) * words.norm(dim=-1)[:, None, None] + 1e-6
        scores = queries @ words[:, None].mT / lengths
        written = words.shape[1] - heads * (steps - 1 - torch.arange(steps, device=x.device))
        late = torch.arange(words.shape[1], device=x.device) >= written[:, None]
        best, rows = scores.masked_fill(late, -2.0).topk(min(self.k, words.shape[1]), -1)
        weights = torch.softmax((1 + F.softplus(beta)).permute(1, 2, 0)[..., None] * best, -1)
        weights = weights.masked_fill(best <= -2, 0.0)
        chosen = (
            words[:, None].expand(-1, heads, -1, -1).gather(2, rows.flatten(2)[..., None].expand(-1, -1, -1, width))
        )
        read = (weights[..., None] * chosen.unflatten(2, rows.shape[2:])).sum(-2)  # (B, R, T, W)
        y = self.output(torch.cat([x, read.permute(2, 0, 1, 3).flatten(2)], -1))
        return y, StandInState(words, recent)
