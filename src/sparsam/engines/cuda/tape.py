"""What a forward pass leaves for the backward pass: a constant number of bytes per step, whatever N is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam.engines.cuda.arena import Places, TensorArena, placed
from sparsam.engines.cuda.layout import Layout


class SequenceTape(TensorArena):
    """What tapes of all models have; time comes first, then the batch element."""

    place: ClassVar[Any]  # places of every tensor but the joint one, for a layout, steps and batch
    gates: Tensor
    interface: Tensor
    joint: Tensor  # [h, r] (T + 1, B, J), in memory of its own, which outlives the rest

    def __init__(self, size: Any, steps: int, batch: int, like: Tensor, arena: Tensor | None = None) -> None:
        self.size, self.steps, self.batch = size, steps, batch
        places, numbers = self.place(size, steps, batch)
        kind: dict[str, Any] = {"dtype": torch.float32, "device": like.device}
        super().__init__(places, torch.empty(numbers, **kind) if arena is None else arena)
        if arena is None:
            self.joint = torch.empty(steps + 1, batch, size.J, **kind)

    @property
    def bytes(self) -> int:
        return (self.arena.numel() + self.joint.numel()) * 4

    def with_gradients(self) -> Any:
        """The same with copies of gates and interface, for the backward kernel to change."""
        tape = type(self)(self.size, self.steps, self.batch, self.joint, self.arena)
        tape.joint, tape.gates, tape.interface = self.joint, self.gates.clone(), self.interface.clone()
        return tape

    def final(self, ends: Tensor, padded: bool) -> tuple[Any, Tensor, Tensor | None, Tensor]:
        """Where every element's last step is, and h, c of an LSTM, and r after it."""
        size, last = self.size, (ends.long(), torch.arange(self.batch, device=ends.device))
        at: Any = last if padded else self.steps
        joint = self.joint[at]
        cells = self.cells[at].clone() if size.CONTROLLER == "lstm" else None
        return at, joint[:, : size.H].clone(), cells, joint[:, size.H :].clone().view(self.batch, size.R, size.W)


class Tape(SequenceTape):
    """The backward kernel turns gates and interface into their gradients."""

    gates: Tensor  # (T, B, 4 H)
    cells: Tensor  # c (T + 1, B, H)
    joint: Tensor
    interface: Tensor  # (T, B, F), activated
    rows: Tensor  # (T + 1, B, RP, KP) int32, -1 for none; RP, KP and WP are powers of two
    weights: Tensor  # (T + 1, B, RP, KP)
    scores: Tensor  # (T, B, RP, KP)
    unused: Tensor  # (T, B, RP) int32
    read_words: Tensor  # (T, B, RP, KP, WP)
    content_rows: Tensor  # with links: what the content read found, likewise
    content_weights: Tensor
    content_words: Tensor
    to_predecessors: Tensor  # (T, B, RP, KP, KP): N(j, i) of the rows i read now and j read before
    to_successors: Tensor  # P(j, i)
    room: Tensor  # with free gates: what the words of `unused` have room for (T, B, RP), and their usage at first
    usage_before: Tensor
    journal_columns: Tensor  # with gradients of the links: what a step changed of them (T, B, JOURNAL)
    journal_weights: Tensor


def numbers_of(size: Layout, steps: int, batch: int) -> int:
    """How many numbers a tape has, the joint one aside; sizes may be those of a traced graph."""
    return _placed(size, steps, batch)[1]


def _placed(size: Layout, steps: int, batch: int) -> tuple[Places, int]:
    """Places of every tensor but the joint one."""
    heads, k = (steps, batch, size.RP), size.KP
    read, later = (*heads, k), (steps + 1, batch, size.RP, k)
    none = (0,)
    content = bool(size.KL)
    return placed(
        {
            "gates": ((steps, batch, 4 * size.H) if size.H else none, False),
            "cells": ((steps + 1, batch, size.H) if size.CONTROLLER == "lstm" else none, False),
            "interface": ((steps, batch, size.F), False),
            "rows": (later, True),
            "weights": (later, False),
            "scores": (read, False),
            "unused": (heads, True),
            "read_words": ((*read, size.WP), False),
            "content_rows": (read if content else none, True),
            "content_weights": (read if content else none, False),
            "content_words": ((*read, size.WP) if content else none, False),
            "to_predecessors": ((*read, k) if content else none, False),
            "to_successors": ((*read, k) if content else none, False),
            "room": (heads if size.FREE else none, False),
            "usage_before": (heads if size.FREE else none, False),
            "journal_columns": ((steps, batch, size.JOURNAL) if size.LG else none, True),
            "journal_weights": ((steps, batch, size.JOURNAL) if size.LG else none, False),
        }
    )


Tape.NAMES, Tape.place = tuple(Tape.__annotations__), staticmethod(lru_cache(maxsize=256)(_placed))
