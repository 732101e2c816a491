"""How a model uses its memory while it learns, along a few fresh sequences."""

from __future__ import annotations

import torch

from sparsam.diagnose import Diagnosis, diagnose
from sparsam.lab.tasks.input_layer import WithInputLayer, inner_model
from sparsam.lab.tasks.task import Batch
from sparsam.models.contract import Recurrent

SEQUENCES, STEPS = 2, 512  # looked at, at most: the cost must not grow with the task


def memory_use(model: torch.nn.Module, batch: Batch) -> Diagnosis | None:
    """What `sparsam.diagnose` says of the beginning of a batch; None for a model without a memory."""
    memory_model = inner_model(model)
    if not isinstance(memory_model, Recurrent) or memory_model.memory is None:
        return None
    x = batch.inputs[:STEPS, :SEQUENCES]
    lengths = None if batch.lengths is None else batch.lengths[:SEQUENCES].clamp(max=STEPS)
    if isinstance(model, WithInputLayer):
        learning = model.input_layer.training
        with torch.no_grad():
            x = model.input_layer.eval()(x)
        model.input_layer.train(learning)
    return diagnose(memory_model, x, lengths=lengths)
