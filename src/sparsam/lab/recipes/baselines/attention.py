"""Causal softmax attention: the standard for recall, at a cost per token that grows with the length.

    y_t = output(sum_{s <= t} softmax_s(q_t . k_s / sqrt(d)) v_s), for each head

There are no positions; the short convolution in front tells a step what came just before it, as it does for the other
mixers. The state is the cache of all keys and values so far.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right

from sparsam.lab.recipes.baselines.convolution import ShortConvolution


class AttentionState(NamedTuple):
    """Keys and values (B, heads, T, d) so far, and the convolution's last inputs."""

    keys: Tensor
    values: Tensor
    recent: Tensor


class Attention(nn.Module):
    """Multi-head causal attention over a short convolution of the input."""

    def __init__(self, width: int, num_heads: int = 4, conv: int = 4) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"num_heads: expected a divisor of the width {width}, got {num_heads}")
        self.num_heads = num_heads
        self.conv = ShortConvolution(width, conv)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, state: AttentionState | None = None) -> tuple[Tensor, AttentionState]:
        mixed, recent = self.conv(x, None if state is None else state.recent)
        heads = self.project(mixed).unflatten(-1, (3, self.num_heads, -1))  # (T, B, 3, heads, d)
        queries, keys, values = heads.permute(2, 1, 3, 0, 4)
        if state is None:
            read = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            keys, values = torch.cat([state.keys, keys], 2), torch.cat([state.values, values], 2)
            causal = causal_lower_right(queries.shape[2], keys.shape[2])
            read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=causal)  # type: ignore[arg-type]
        y = self.output(read.permute(2, 0, 1, 3).flatten(2))
        return y, AttentionState(keys, values, recent)
