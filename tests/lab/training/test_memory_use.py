"""What a log says about reads and writes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import sparsam
from sparsam.lab import tasks
from sparsam.lab.tasks.input_layer import WithInputLayer
from sparsam.lab.training.loop import train
from sparsam.lab.training.memory_use import SEQUENCES, STEPS, memory_use
from sparsam.lab.training.progress import Silent

TASK = tasks.build("copy", bits=3, max_size=5)
BATCH = TASK.sample_size(3, torch.Generator().manual_seed(0), 5)


def test_it_is_a_diagnosis_of_the_first_sequences() -> None:
    torch.manual_seed(0)
    model = sparsam.SAM(TASK.input_size, TASK.output_size, hidden_size=8, memory_size=32, word_size=4, num_heads=2, k=2)
    use = memory_use(model, BATCH)
    assert use == sparsam.diagnose(model, BATCH.inputs[:, :SEQUENCES])
    assert model.training


@pytest.mark.parametrize("name", ["sdnc", "dam", "ntm", "dnc"])
def test_every_memory_has_numbers(name: str) -> None:
    model = sparsam.build(name, input_size=TASK.input_size, output_size=TASK.output_size, memory_size=16, hidden_size=8)
    use = memory_use(model, BATCH)
    assert use is not None and all(isinstance(value, float) for value in use.numbers().values())


def test_the_model_behind_an_input_layer_is_looked_at() -> None:
    torch.manual_seed(0)
    model = sparsam.SAM(6, TASK.output_size, hidden_size=8, memory_size=32)
    layer = torch.nn.Linear(TASK.input_size, 6)
    use = memory_use(WithInputLayer(layer, model), BATCH)
    assert use == memory_use(model, dataclasses.replace(BATCH, inputs=layer(BATCH.inputs).detach()))


def test_a_model_without_a_memory_has_none() -> None:
    assert memory_use(sparsam.LSTM(TASK.input_size, TASK.output_size), BATCH) is None
    assert memory_use(torch.nn.Linear(2, 2), BATCH) is None


def test_long_sequences_are_cut() -> None:
    long = TASK.sample_size(1, torch.Generator().manual_seed(0), STEPS)
    model = sparsam.SAM(TASK.input_size, TASK.output_size, hidden_size=8, memory_size=4096, num_heads=1, k=1)
    use = memory_use(model, long)
    assert use is not None and use.use.rows_written <= 2 * STEPS


class Notes(Silent):
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def test_a_run_gives_its_advice_once_and_not_at_its_beginning(tiny: Any, tmp_path: Path) -> None:
    notes, full = Notes(), ("model.name=sam", "model.memory_size=16", "steps=20", "eval_every=1")
    train(tiny(*full), tmp_path / "run", display=notes)
    assert [text.partition(":")[0] for text in notes.said if "of 16 rows" in text] == ["minibatch 2"]
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert sum("written_before" in event for event in events) == 20
