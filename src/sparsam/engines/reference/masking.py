"""Masked content addressing (`masked=True`): a head says which part of the words its key is to be compared with.

Csordas and Schmidhuber 2019, "Improving Differentiable Neural Computers Through Memory Masking, De-allocation, and Link
Distribution Sharpness Control". A key that holds part of a word finds it no better than chance where the
unknown rest counts in the word's norm; with a mask m in (0, 1)^W, one to each key, the score is d(q m, M(i) m).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import EPSILON


def masked_words(words: Tensor, mask: Tensor) -> Tensor:
    """M(i) m for each head: words (B, N, W), or (B, R, K, W) per head, and masks (B, R, W) give (B, R, N or K, W)."""
    return (words[:, None] if words.dim() == 3 else words) * mask[:, :, None]


def masked_cosine(query: Tensor, mask: Tensor, words: Tensor) -> Tensor:
    """The cosine of q m and M(i) m for all N words (B, N, W) as matrix products: (B, R, N), no (B, R, N, W) tensor."""
    squares = mask.square()
    dot = (query * squares) @ words.mT
    lengths = squares @ words.square().mT  # |M(i) m|^2
    blank = lengths == 0
    word_norms = torch.where(blank, 1.0, lengths).sqrt() * ~blank  # the root of 0 has no finite gradient
    norms: Tensor = torch.linalg.vector_norm(query * mask, dim=-1, keepdim=True) * word_norms
    return dot / (norms + EPSILON)


def masked_content_weights(query: Tensor, strength: Tensor, mask: Tensor, words: Tensor) -> Tensor:
    """softmax over all N words of beta * `masked_cosine`, (B, R, N), strength beta (B, R)."""
    return torch.softmax(strength[..., None] * masked_cosine(query, mask, words), dim=-1)
