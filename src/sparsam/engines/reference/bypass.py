"""Bypass dropout (`bypass_dropout=p`): the way around the memory is made unreliable, so that the memory gets used.

Franke, Niehues and Waibel 2018, "Robust and Scalable Differentiable Neural Computer for Question Answering":
dropout on the controller's direct connection to the output layer, and nowhere else.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def output_input(hidden: Tensor, read: Tensor, dropout: float, training: bool) -> Tensor:
    """[h_t, r_t], what the output layer sees, with parts of h_t zeroed at random during training; read (B, R, W)."""
    return torch.cat([F.dropout(hidden, dropout, training) if dropout else hidden, read.flatten(1)], dim=-1)
