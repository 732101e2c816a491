"""U^(1), the usage of DAM: a time-discounted sum of the weights of every access (section 3.2 of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_usage(usage: Tensor, discount: float, write_weights: Tensor, read_weights: Tensor) -> Tensor:
    """U_T(i) = sum_t lambda^(T-t) (w^W_t(i) + w^R_t(i)), summed over heads: U <- lambda U + sum_h (w^W_h + w^R_h).

    Usage (B, N), weights (B, R, N). A constant for the gradient, as it only selects rows.
    """
    return discount * usage.detach() + (write_weights.detach() + read_weights.detach()).sum(dim=1)


def least_used(usage: Tensor, count: int) -> Tensor:
    """I^U_t: the `count` rows of least usage (B, count), least first; ties go to the lowest row.

    `argmin` names the first of equal minima, so `count` passes over N do, where a stable sort would cost more.
    """
    left, rows = usage.clone(), []
    for _ in range(count):
        rows.append(left.argmin(dim=-1, keepdim=True))
        left.scatter_(1, rows[-1], torch.inf)
    return torch.cat(rows, dim=-1)
