"""The sparse write: to what was read before, and to the least recently accessed words."""

from __future__ import annotations

import torch
from torch import Tensor


def write_weights(
    alpha: Tensor, gamma: Tensor, read_rows: Tensor, read_weights: Tensor, unused: Tensor, room: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """eq. lru_write_weights: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) 1[u_h]).

    Gates (B, R), previous reads (B, R, K) with row -1 for none, unused rows u (B, R); returns rows and weights
    (B, R, K+1), the unused row last. Where unused rows have limited room (B, R), they take (1 - gamma_h) room_h.
    """
    previous = (alpha * gamma)[..., None] * read_weights * (read_rows >= 0)
    fresh = alpha * (1 - gamma) if room is None else alpha * (1 - gamma) * room
    return torch.cat([read_rows, unused[..., None]], dim=-1), torch.cat([previous, fresh[..., None]], dim=-1)


def sparse_write(words: Tensor, unused: Tensor, rows: Tensor, weights: Tensor, write_words: Tensor) -> Tensor:
    """eq. sparse_write_suppl: M <- M - E + A with E the words at u (B, R) and A = sum_h w^W_h a_h^T, a (B, R, W)."""
    batch, size, width = words.shape
    keep = words.new_ones(batch, size).scatter(1, unused, 0.0)
    added = (weights[..., None] * write_words[:, :, None]).reshape(batch, -1, width)
    at = rows.clamp_min(0).reshape(batch, -1, 1).expand(-1, -1, width)  # a weight of 0 goes with row -1
    return (words * keep[..., None]).scatter_add(1, at, added)
