"""What a forward pass leaves for the backward pass: a constant number of bytes per step, whatever N is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda.layout import Layout


@dataclass(eq=False)
class Tape:
    """Time comes first, then the batch element. The backward kernel turns gates and interface into their gradients."""

    gates: Tensor  # (T, B, 4 H)
    cells: Tensor  # c (T + 1, B, H)
    joint: Tensor  # [h, r] (T + 1, B, J)
    interface: Tensor  # (T, B, F), activated
    rows: Tensor  # (T + 1, B, RP, KP) int32, -1 for none; RP, KP and WP are powers of two
    weights: Tensor  # (T + 1, B, RP, KP)
    scores: Tensor  # (T, B, RP, KP)
    unused: Tensor  # (T, B, RP) int32
    read_words: Tensor  # (T, B, RP, KP, WP)
    content_rows: Tensor  # with links: what the content read found, likewise
    content_weights: Tensor
    content_words: Tensor
    to_before: Tensor  # (T, B, RP, KP, KP): N(j, i) of the rows i read now and j read before
    to_after: Tensor  # P(j, i)

    def tensors(self) -> list[Tensor]:
        return list(vars(self).values())


def new_tape(size: Layout, steps: int, batch: int, like: Tensor) -> Tape:
    """Room for `steps` steps, not filled."""
    numbers: dict[str, Any] = {"dtype": torch.float32, "device": like.device}
    counts: dict[str, Any] = {"dtype": torch.int32, "device": like.device}
    heads, k = size.RP, size.KP
    none = torch.empty(0, **numbers)
    content = (none,) * 5
    if size.KL:
        content = (
            torch.empty(steps, batch, heads, k, **counts),
            torch.empty(steps, batch, heads, k, **numbers),
            torch.empty(steps, batch, heads, k, size.WP, **numbers),
            torch.empty(steps, batch, heads, k, k, **numbers),
            torch.empty(steps, batch, heads, k, k, **numbers),
        )
    return Tape(
        torch.empty(steps, batch, 4 * size.H, **numbers) if size.H else none,
        torch.empty(steps + 1, batch, size.H, **numbers) if size.CELL == "lstm" else none,
        torch.empty(steps + 1, batch, size.J, **numbers),
        torch.empty(steps, batch, size.F, **numbers),
        torch.empty(steps + 1, batch, heads, k, **counts),
        torch.empty(steps + 1, batch, heads, k, **numbers),
        torch.empty(steps, batch, heads, k, **numbers),
        torch.empty(steps, batch, heads, **counts),
        torch.empty(steps, batch, heads, k, size.WP, **numbers),
        *content,
    )
