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
    linked = steps if size.KL else 0
    lstm = steps + 1 if size.CELL == "lstm" else 0
    return Tape(
        gates=torch.empty(steps, batch, 4 * size.H, **numbers),
        cells=torch.empty(lstm, batch, size.H, **numbers),
        joint=torch.empty(steps + 1, batch, size.J, **numbers),
        interface=torch.empty(steps, batch, size.F, **numbers),
        rows=torch.empty(steps + 1, batch, heads, k, **counts),
        weights=torch.empty(steps + 1, batch, heads, k, **numbers),
        scores=torch.empty(steps, batch, heads, k, **numbers),
        unused=torch.empty(steps, batch, heads, **counts),
        read_words=torch.empty(steps, batch, heads, k, size.WP, **numbers),
        content_rows=torch.empty(linked, batch, heads, k, **counts),
        content_weights=torch.empty(linked, batch, heads, k, **numbers),
        content_words=torch.empty(linked, batch, heads, k, size.WP, **numbers),
        to_before=torch.empty(linked, batch, heads, k, k, **numbers),
        to_after=torch.empty(linked, batch, heads, k, k, **numbers),
    )
