"""Bypass dropout where a whole sequence is one node of the graph: a mask over h at every step, drawn before it runs.

`sparsam.engines.reference.bypass` is the same, step by step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def bypass_mask(model: Any, x: Tensor) -> Tensor | None:
    """What h (T, B, H) is multiplied by on its way to the output layer: 0 or 1 / (1 - p); None for no dropout."""
    if not (model.bypass_dropout and model.training):
        return None
    return F.dropout(x.new_ones(*x.shape[:2], model.hidden_size), model.bypass_dropout)


def masked_joint(joint: Tensor, mask: Tensor | None) -> Tensor:
    """[h, r] (T, B, H + R W) as the output layer sees it, and likewise its gradient."""
    if mask is None:
        return joint
    width = mask.shape[-1]
    return torch.cat([joint[..., :width] * mask, joint[..., width:]], dim=-1)
