"""Copies and blanks of memories with many words, which a call would otherwise spend more on than on its steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sparsam.engines.cuda.layout import Layout
from sparsam.engines.cuda.tape import Tape

LARGE = 1 << 20  # numbers; fewer are copied and blanked by torch
BLOCK = 2048


def spread(values: Tensor, batch: int) -> Tensor:
    """Values (...) of four bytes each, for every element (B, ...)."""
    from sparsam.engines.cuda.kernels.copies import spread as kernel

    values = values.contiguous()
    copies = torch.empty(batch, *values.shape, dtype=values.dtype, device=values.device)
    kernel[(math.ceil(values.numel() / BLOCK),)](values, copies, values.numel(), batch, BLOCK=BLOCK, num_warps=4)
    return copies


def blank_where_touched(tape: Tape, size: Layout, rows: int, ends: Tensor) -> Tensor:
    """(B, rows, W) with zeros in all rows that the steps of the tape read or wrote, and anything elsewhere."""
    from sparsam.engines.cuda.kernels.copies import blank_rows as kernel

    steps, batch = tape.steps, tape.batch
    matrix = torch.empty(batch, rows, size.W, dtype=torch.float32, device=tape.joint.device)
    accesses = [(tape.rows, 1), (tape.unused, 0)] + ([(tape.content_rows, 0)] if size.KL else [])
    for named, later in accesses:
        each = named[0, 0].numel()
        kernel[(steps + later, batch)](matrix, named, ends, later, batch, rows, W=size.W, WP=size.WP, X=each)
    return matrix
