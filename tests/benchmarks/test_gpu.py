"""The benchmark of the GPU engine, measured here on the engine that every machine has."""

from __future__ import annotations

import pytest
import torch

from benchmarks import gpu
from benchmarks.report import Report

SMALL = dict(input_size=4, output_size=3, hidden_size=6, memory_size=32, word_size=8, num_heads=2, k=2)


def test_every_candidate_is_timed():
    times = gpu.measure("cpu", "native", 2, 0.01, steps=5, **SMALL)
    assert set(times) == {"nn.LSTM", "sam", "sam forward", "sdnc", "sdnc forward"}
    assert all(spent > 0 for spent in times.values())
    assert "sdnc" not in gpu.measure("cpu", "native", 2, 0.01, steps=5, linked=False, **SMALL)


def test_an_engine_that_differs_is_not_timed(monkeypatch):
    assert gpu.checked("sam", "cpu", "native") < 1e-5
    monkeypatch.setattr(gpu, "TOLERANCE", -1.0)
    with pytest.raises(RuntimeError, match="differs from the reference"):
        gpu.checked("sam", "cpu", "native")


def test_dense_models_are_checked_and_timed_with_and_without_kernels(monkeypatch):
    assert gpu.checked("dam", "cpu", "reference") == 0
    asked = []
    monkeypatch.setattr(gpu, "train", lambda model, x: asked.append((model, gpu.cuda_dense.has_kernel(None, None, x))))
    monkeypatch.setattr(gpu.cuda_dense, "has_kernel", lambda *_: True)
    spent = gpu.turns({"kernels": "first", "graphs": "second"}, torch.zeros(5, 1, 1), 0.001)
    assert set(spent) == {"kernels", "graphs"} and all(value > 0 for value in spent.values())
    assert set(asked) == {("first", True), ("second", False)}


def test_recall_is_what_both_searches_read():
    report = Report("gpu")
    gpu.recall(report, 150, "cpu", "native")
    (line,) = report.lines
    assert 0.9 < line.reached <= 1 and line.met


def test_the_plot_is_drawn(tmp_path):
    gpu.plot({"layer": {1024: 30.0, 4096: 31.0}, "attention": {1024: 1.5, 4096: 6.0}}, tmp_path / "gpu.png")
    assert (tmp_path / "gpu.png").stat().st_size > 1000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_says_that_it_needs_a_gpu(tmp_path):
    with pytest.raises(RuntimeError, match="needs a GPU"):
        gpu.run(tmp_path)
