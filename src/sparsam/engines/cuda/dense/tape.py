"""What a dense sequence leaves on the GPU: the state after every step, and what its gradients need of a step."""

from __future__ import annotations

from functools import lru_cache

from torch import Tensor

from sparsam.engines.cuda.arena import Places, placed
from sparsam.engines.cuda.dense.layout import DenseLayout
from sparsam.engines.cuda.tape import SequenceTape


class DenseTape(SequenceTape):
    """The backward kernel turns gates and interface into their gradients."""

    gates: Tensor  # (T, B, 4 H)
    cells: Tensor  # c (T + 1, B, H), LSTM
    joint: Tensor
    interface: Tensor  # (T, B, F), activated
    words: Tensor  # M (T + 1, B, N, W)
    weights: Tensor  # w^R (T + 1, B, R, N)
    written: Tensor  # w^W (T + 1, B, R, N) of the NTM, (T + 1, B, N) of the DNC
    usage: Tensor  # (T + 1, B, N), DAM and DNC
    precedence: Tensor  # p (T + 1, B, N), DNC, likewise below
    link: Tensor  # L (T + 1, B, N, N)
    scores: Tensor  # d(q, M(i)) (T, B, heads, N)
    contents: Tensor  # their softmax, where it is not w^R itself
    gated: Tensor  # w^g (T, B, 2 R, N), NTM
    unused: Tensor  # rows written anew (T, B, R) int32, DAM
    followed: Tensor  # b and f (T, B, 2, R, N), DNC
    allocated: Tensor  # a (T, B, N), DNC
    scratch: Tensor  # (B, rows, N)


@lru_cache(maxsize=256)
def _places(size: DenseLayout, steps: int, batch: int) -> tuple[Places, int]:
    """Places of every tensor but the joint one."""
    now, later = (steps, batch), (steps + 1, batch)
    rows, heads, model = size.N, size.R, size.MODEL
    none = (0,)
    dnc = model == "dnc"
    return placed(
        {
            "gates": ((*now, 4 * size.H), False),
            "cells": ((*later, size.H) if size.CONTROLLER == "lstm" else none, False),
            "interface": ((*now, size.F), False),
            "words": ((*later, rows, size.W), False),
            "weights": ((*later, heads, rows), False),
            "written": ({"dam": none, "ntm": (*later, heads, rows), "dnc": (*later, rows)}[model], False),
            "usage": (none if model == "ntm" else (*later, rows), False),
            "precedence": ((*later, rows) if dnc else none, False),
            "link": ((*later, rows, rows) if dnc else none, False),
            "scores": ((*now, size.SCORED, rows), False),
            "contents": (none if model == "dam" else (*now, size.SCORED, rows), False),
            "gated": ((*now, size.SCORED, rows) if model == "ntm" else none, False),
            "unused": ((*now, heads) if model == "dam" else none, True),
            "followed": ((*now, 2, heads, rows) if dnc else none, False),
            "allocated": ((*now, rows) if dnc else none, False),
            "scratch": ((batch, size.ROOM, rows) if size.ROOM else none, False),
        }
    )


DenseTape.NAMES, DenseTape.place = tuple(DenseTape.__annotations__), staticmethod(_places)
