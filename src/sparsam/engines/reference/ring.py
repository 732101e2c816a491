"""Least recently accessed words: U^(2), the paper's ring, kept here as the step of each row's last access.

The ring orders rows by when they were last accessed and, within a step, by row; so sorting by (last access, row) gives
its order without any links. `csrc/memory/ring.h` is the linked list that does the same in constant time.
"""

from __future__ import annotations

import torch
from torch import Tensor


def least_recently_accessed(last_access: Tensor, count: int) -> Tensor:
    """The first `count` rows of the ring, (B, count): minimal U^(2), ties to the lowest row."""
    return last_access.sort(dim=-1, stable=True).indices[:, :count]


def summed_weights(rows: Tensor, weights: Tensor, size: int) -> Tensor:
    """Weights of sparse accesses (B, ..., K) summed per row into (B, N); rows of -1 count for nothing."""
    flat = weights.detach().reshape(weights.shape[0], -1)
    at = rows.reshape(rows.shape[0], -1)
    dense = flat.new_zeros(flat.shape[0], size)
    return dense.scatter_add(1, at.clamp_min(0), flat * (at >= 0))


def touch(last_access: Tensor, clock: Tensor, accessed: Tensor) -> tuple[Tensor, Tensor]:
    """Move the rows where `accessed` (B, N) holds to the back of the ring; returns the ring and the clock after it."""
    clock = clock + 1
    return torch.where(accessed, clock[:, None], last_access), clock
