"""Temporal linkage of the DNC, dense (Graves 2016, Methods; section D.1 of the paper): L, precedence, read modes."""

from __future__ import annotations

import torch
from torch import Tensor


def dense_links(link: Tensor, precedence: Tensor, write_weights: Tensor) -> Tensor:
    """L_t(i,j) = (1 - w(i) - w(j)) L_{t-1}(i,j) + w(i) p_{t-1}(j), and 0 on the diagonal; L (B, N, N), w, p (B, N)."""
    rows, columns = write_weights[:, :, None], write_weights[:, None, :]
    eye = torch.eye(link.shape[-1], dtype=torch.bool, device=link.device)
    return ((1 - rows - columns) * link + rows * precedence[:, None, :]).masked_fill(eye, 0.0)


def precedence_weights(precedence: Tensor, write_weights: Tensor) -> Tensor:
    """p_t = (1 - sum_i w(i)) p_{t-1} + w, (B, N)."""
    return (1 - write_weights.sum(dim=-1, keepdim=True)) * precedence + write_weights


def follow_links(link: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Forward f = L w^R_{t-1} and backward b = L^T w^R_{t-1}, each (B, R, N)."""
    return read_weights @ link.mT, read_weights @ link


def mix_modes(modes: Tensor, backward: Tensor, content: Tensor, forward: Tensor) -> Tensor:
    """w^R = pi_b b + pi_c c + pi_f f; modes pi (B, R, 3) in that order, weights (B, R, N)."""
    pi_b, pi_c, pi_f = modes.unsqueeze(-2).unbind(dim=-1)
    return pi_b * backward + pi_c * content + pi_f * forward
