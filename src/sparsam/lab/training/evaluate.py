"""A model's errors on fresh (or held-out) episodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.tasks.task import Batch, FiniteTask
from sparsam.lab.training.seeds import MinibatchSeeds


def forward(model: torch.nn.Module, batch: Batch) -> Tensor:
    """The model's outputs for a batch."""
    if batch.lengths is None:
        return model(batch.inputs)[0]
    return model(batch.inputs, lengths=batch.lengths)[0]


def evaluate(
    model: torch.nn.Module,
    task: Any,
    seeds: MinibatchSeeds,
    batches: int | None = 8,
    batch_size: int = 32,
    level: int | None = None,
    size: int | None = None,
    split: str = "validation",
    device: str | torch.device = "cpu",
) -> dict[str, float]:
    """Mean of the task's errors over `batches` minibatches, headline first, with the mean loss as `loss`.

    `level` draws sizes from U(1, level), `size` asks for exactly that size. A task over a fixed data set is
    evaluated on `split`, on all of it when `batches` is None; one with a `table()` counts its answers there,
    since means of minibatches would give one with few questions the weight of one with many.
    """
    if size is not None and not hasattr(task, "sample_size"):
        raise ValueError(f"size: expected None for task {task.name!r}, which has no sizes, got {size}")
    for name, count in (("size", size), ("batches", batches), ("batch_size", batch_size), ("level", level)):
        if count is not None and count < 1:
            raise ValueError(f"{name}: expected at least 1, got {count}")
    source: Iterable[Batch]
    if isinstance(task, FiniteTask):
        exact = {} if size is None else {"size": size}
        source = itertools.islice(task.evaluation_batches(split, batch_size, **exact), batches)
    elif size is not None:
        source = (task.sample_size(batch_size, seeds.at(i, MinibatchSeeds.EVALUATE), size) for i in range(batches or 8))
    else:
        source = (task.sample(batch_size, seeds.at(i, MinibatchSeeds.EVALUATE), level) for i in range(batches or 8))
    table = task.table() if hasattr(task, "table") else None
    sums: dict[str, float] = {}
    weights: dict[str, int] = {}
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in source:
                batch = batch.to(device)
                outputs = forward(model, batch)
                values = {"loss": float(task.loss(outputs, batch))}
                if table is None:
                    values = task.errors(outputs, batch) | values
                else:
                    table.add(outputs, batch)
                for key, value in values.items():
                    sums[key] = sums.get(key, 0.0) + value * batch.batch_size
                    weights[key] = weights.get(key, 0) + batch.batch_size
    finally:
        model.train(was_training)
    if not sums:
        raise ValueError(f"split {split!r} of task {task.name!r} is empty")
    counted = {} if table is None else table.summary()
    return counted | {key: sums[key] / weights[key] for key in sums}
