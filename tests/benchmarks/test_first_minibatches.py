"""The record of what the first minibatches read and learn from, in small."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
import torch

import sparsam
from benchmarks import first_minibatches
from benchmarks.learn_tasks import TASKS


@pytest.mark.parametrize("way", first_minibatches.WAYS)
def test_every_way_has_a_row_for_each_window(way, monkeypatch):
    monkeypatch.setattr(first_minibatches, "WINDOW", 1)
    rows = first_minibatches.train(way, 0, 2, hidden=8)
    assert [row["minibatch"] for row in rows] == [1, 2]
    for row in rows:
        assert 0 <= row["asked_pair"] <= 1 and 0 < row["query"] < 1 and 0 < row["write_word"] < 1


def test_parts_of_the_gradient_are_those_of_named_rows():
    torch.manual_seed(0)
    model = sparsam.SAM(10, 8, 8, memory_size=32, num_heads=1, word_size=4)
    model(torch.randn(5, 2, 10))[0].sum().backward()
    for parameter in model.parameters():
        parameter.grad.zero_()
    model.interface.bias.grad[1] = 3.0  # of the query
    model.interface.weight.grad[5, 0] = 4.0  # of the write word
    assert first_minibatches.parts_of_gradient(model) == pytest.approx({"query": 0.6, "write_word": 0.8})


def test_a_memory_that_never_writes_reads_nothing_of_the_asked_pair():
    model = sparsam.SAM(10, 8, 8, memory_size=32, num_heads=1)
    at = model.memory.interface.offsets()["write_gate"]
    with torch.no_grad():
        model.interface.bias[at] = -30.0
    x = TASKS["recall"].draw(4, torch.Generator().manual_seed(0))[0]
    found = first_minibatches.reads_of(model, x)
    assert found["asked_pair"] == found["written_before"] == 0


def test_the_page_has_the_numbers_of_the_record():
    docs = Path(__file__).parents[2] / "docs"
    runs = json.loads((docs / "bench" / "first_minibatches.json").read_text())["runs"]
    page = (docs / "explanation" / "first_weights.md").read_text()
    for way in first_minibatches.WAYS:
        last = [run["rows"][-1] for run in runs if run["way"] == way]
        assert {row["minibatch"] for row in last} == {1000} and len(last) == 2
        mean = {name: statistics.mean(row[name] for row in last) for name in last[0]}
        shown = (
            f"{mean['query']:.1%} | {mean['write_word']:.0%} | {mean['written_before']:.2f} | {mean['asked_pair']:.2f}"
        )
        assert f"| {way} | {shown} | {mean['loss']:.2f} |" in page
