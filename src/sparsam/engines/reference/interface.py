"""The interface vector of SAM and DAM (p_t of section 3.3): queries, write words, and the gates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Interface(NamedTuple):
    """What the controller asks of the memory at one step, per head."""

    query: Tensor  # q (B, R, W)
    write_word: Tensor  # a (B, R, W)
    strength: Tensor  # beta (B, R), at least 1
    write_gate: Tensor  # alpha (B, R) in (0, 1)
    interpolation: Tensor  # gamma (B, R) in (0, 1)
    rest: Tensor  # (B, ...) what a model appends


def interface_size(num_heads: int, word_size: int) -> int:
    """R·W queries, R·W write words, then beta, alpha and gamma."""
    return 2 * num_heads * word_size + 3 * num_heads


def split_interface(vector: Tensor, num_heads: int, word_size: int) -> Interface:
    """beta = 1 + softplus, alpha and gamma = sigmoid; q and a as they are."""
    words = num_heads * word_size
    query, write_word, beta, alpha, gamma, rest = vector.split(
        [
            words,
            words,
            num_heads,
            num_heads,
            num_heads,
            vector.shape[-1] - interface_size(num_heads, word_size),
        ],
        dim=-1,
    )
    shape = (vector.shape[0], num_heads, word_size)
    return Interface(
        query.reshape(shape),
        write_word.reshape(shape),
        1 + F.softplus(beta),
        torch.sigmoid(alpha),
        torch.sigmoid(gamma),
        rest,
    )
