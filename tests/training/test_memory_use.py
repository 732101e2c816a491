"""What a log says about reads and writes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import sparsam
from sparsam import tasks
from sparsam.training.input_layer import WithInputLayer
from sparsam.training.memory_use import SEQUENCES, STEPS, memory_use

TASK = tasks.build("copy", bits=3, max_size=5)
BATCH = TASK.sample_size(3, torch.Generator().manual_seed(0), 5)


def test_it_counts_what_a_trace_shows() -> None:
    torch.manual_seed(0)
    model = sparsam.SAM(TASK.input_size, TASK.output_size, hidden_size=8, memory_size=32, word_size=4, num_heads=2, k=2)
    use = memory_use(model, BATCH)
    trace = model.trace(BATCH.inputs[:, :SEQUENCES])
    rows = [len(trace.reads(b).row.unique()) for b in range(SEQUENCES)]
    assert use["rows_read"] == sum(rows) / SEQUENCES
    assert use["rows_written"] == sum(len(trace.writes(b).row.unique()) for b in range(SEQUENCES)) / SEQUENCES
    weights = {}
    reads = trace.reads()
    for time, b, head, weight in zip(reads.time, reads.batch, reads.head, reads.weight):
        key = (int(time), int(b), int(head))
        weights[key] = max(weights.get(key, 0.0), float(weight))
    assert use["read_weight"] == pytest.approx(sum(weights.values()) / len(weights), rel=1e-5)
    total = float(trace.writes().weight.sum())
    assert use["write_weight"] == pytest.approx(total / (len(BATCH.inputs) * SEQUENCES), rel=1e-5)
    assert model.training


@pytest.mark.parametrize("name", ["sdnc", "dam", "ntm", "dnc"])
def test_every_memory_has_numbers(name: str) -> None:
    model = sparsam.build(name, input_size=TASK.input_size, output_size=TASK.output_size, memory_size=16, hidden_size=8)
    assert all(value > 0 for value in memory_use(model, BATCH).values())


def test_the_model_behind_an_input_layer_is_looked_at() -> None:
    torch.manual_seed(0)
    model = sparsam.SAM(6, TASK.output_size, hidden_size=8, memory_size=32)
    layer = torch.nn.Linear(TASK.input_size, 6)
    use = memory_use(WithInputLayer(layer, model), BATCH)
    assert use == memory_use(model, dataclasses.replace(BATCH, inputs=layer(BATCH.inputs).detach()))


def test_a_model_without_a_memory_has_none() -> None:
    assert memory_use(sparsam.LSTM(TASK.input_size, TASK.output_size), BATCH) == {}
    assert memory_use(torch.nn.Linear(2, 2), BATCH) == {}


def test_long_sequences_are_cut() -> None:
    long = TASK.sample_size(1, torch.Generator().manual_seed(0), STEPS)
    model = sparsam.SAM(TASK.input_size, TASK.output_size, hidden_size=8, memory_size=4096, num_heads=1, k=1)
    assert memory_use(model, long)["rows_written"] <= 2 * STEPS
