"""Non-blocking host-to-device copies of small tensors, and padding blanked by a mask that is sent so."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["blank_past", "sent"]


def sent(values: Tensor, device: torch.device | str) -> Tensor:
    """`values` on `device`, without waiting for what a GPU is busy with.

    A copy from ordinary memory waits until the GPU has done all that it was asked before, which leaves it idle until
    the host has put together the next; one from pinned memory only takes its turn.
    """
    device = torch.device(device)
    if device.type != "cuda" or values.device.type != "cpu" or torch.compiler.is_compiling():
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def blank_past(values: Tensor, ends: Tensor | None) -> Tensor:
    """Values (T, B, ...) of steps, 0 past each element's end (B,)."""
    if ends is None:
        return values
    past = torch.arange(values.shape[0], device="cpu")[:, None] >= ends
    return values.masked_fill(sent(past[..., None], values.device), 0.0)
