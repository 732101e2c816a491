"""How a model uses its memory while it learns: rows touched, and how strongly, along a few fresh sequences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.recurrent import Recurrent
from sparsam.tasks.task import Batch
from sparsam.training.input_layer import WithInputLayer, inner_model

SEQUENCES, STEPS = 2, 512  # looked at, at most: the cost must not grow with the task


def memory_use(model: torch.nn.Module, batch: Batch) -> dict[str, float]:
    """Numbers for a log; none for a model without a memory.

    `rows_read` and `rows_written` are the distinct rows per sequence. `read_weight` is the largest weight of a read, a
    mean over steps and heads: 1 when every head reads a single word. `write_weight` is the sum of a step's write
    weights, a mean over steps: 0 when nothing is written.
    """
    memory_model = inner_model(model)
    if not isinstance(memory_model, Recurrent) or memory_model.memory is None:
        return {}
    x = batch.inputs[:STEPS, :SEQUENCES]
    lengths = None if batch.lengths is None else batch.lengths[:SEQUENCES].clamp(max=STEPS)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            seen = model.input_layer(x) if isinstance(model, WithInputLayer) else x
            trace = memory_model.trace(seen, lengths=lengths)
    finally:
        model.train(was_training)
    steps = float(x.shape[0] * x.shape[1] if lengths is None else lengths.sum())
    reads, writes = trace.reads(), trace.writes()
    return {
        "rows_read": _distinct(reads) / x.shape[1],
        "rows_written": _distinct(writes) / x.shape[1],
        "read_weight": float(_largest(reads).mean()) if len(reads) else 0.0,
        "write_weight": float(writes.weight.sum()) / steps,
    }


def _distinct(accesses: Any) -> int:
    """How many different rows, those of different sequences apart."""
    return len(torch.stack([accesses.batch, accesses.row]).unique(dim=1).T)


def _largest(reads: Any) -> Tensor:
    """The largest weight of each head at each step."""
    _, place = torch.stack([reads.time, reads.batch, reads.head]).unique(dim=1, return_inverse=True)
    largest = reads.weight.new_zeros(int(place.max()) + 1)
    return largest.scatter_reduce(0, place, reads.weight, "amax")
