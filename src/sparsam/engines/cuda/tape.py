"""What a forward pass leaves for the backward pass: a constant number of bytes per step, whatever N is.

All of it lies in one piece of memory. The kernels get addresses; a tensor is made when somebody asks for it, since each
one costs microseconds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda.layout import Layout


class Tape:
    """Time comes first, then the batch element. The backward kernel turns gates and interface into their gradients."""

    gates: Tensor  # (T, B, 4 H)
    cells: Tensor  # c (T + 1, B, H)
    joint: Tensor  # [h, r] (T + 1, B, J), in memory of its own, which outlives the rest
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

    def __init__(self, size: Layout, steps: int, batch: int, like: Tensor, arena: Tensor | None = None) -> None:
        self.size, self.steps, self.batch = size, steps, batch
        self.places, floats = _places(size, steps, batch)
        numbers: dict[str, Any] = {"dtype": torch.float32, "device": like.device}
        self.arena = torch.empty(floats, **numbers) if arena is None else arena
        if arena is None:
            self.joint = torch.empty(steps + 1, batch, size.J, **numbers)

    def __getattr__(self, name: str) -> Tensor:
        places = self.__dict__.get("places", {})
        if name not in places:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        shape, begin, kind = places[name]
        value = self.arena[begin : begin + math.prod(shape)].view(shape)
        value = value.view(torch.int32) if kind == "int" else value
        self.__dict__[name] = value
        return value

    def tensors(self) -> list[Tensor]:
        return [getattr(self, name) for name in NAMES]

    def addresses(self) -> list[int]:
        """Where the tensors begin, in the same order."""
        begin = self.arena.data_ptr()
        own = self.__dict__
        return [own[n].data_ptr() if n in own else begin + 4 * self.places[n][1] for n in NAMES]

    def with_gradients(self) -> Tape:
        """The same with copies of gates and interface, for the backward kernel to change."""
        tape = Tape(self.size, self.steps, self.batch, self.joint, self.arena)
        tape.joint, tape.gates, tape.interface = self.joint, self.gates.clone(), self.interface.clone()
        return tape


NAMES = tuple(Tape.__annotations__)


@lru_cache(maxsize=256)
def _places(size: Layout, steps: int, batch: int) -> tuple[dict[str, tuple[tuple[int, ...], int, str]], int]:
    """Shape, first float and kind of every tensor but the joint one, and floats in all; each begins at 16 bytes."""
    heads, k = (steps, batch, size.RP), size.KP
    read, later = (*heads, k), (steps + 1, batch, size.RP, k)
    none = (0,)
    content = bool(size.KL)
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "gates": ((steps, batch, 4 * size.H) if size.H else none, "float"),
        "cells": ((steps + 1, batch, size.H) if size.CELL == "lstm" else none, "float"),
        "interface": ((steps, batch, size.F), "float"),
        "rows": (later, "int"),
        "weights": (later, "float"),
        "scores": (read, "float"),
        "unused": (heads, "int"),
        "read_words": ((*read, size.WP), "float"),
        "content_rows": (read if content else none, "int"),
        "content_weights": (read if content else none, "float"),
        "content_words": ((*read, size.WP) if content else none, "float"),
        "to_before": ((*read, k) if content else none, "float"),
        "to_after": ((*read, k) if content else none, "float"),
    }
    places, begin = {}, 0
    for name, (shape, kind) in shapes.items():
        places[name] = (shape, begin, kind)
        begin += -(-math.prod(shape) // 4) * 4
    return places, begin
