"""The clock of `sparsam bench data`: what the model does is inside, everything else outside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import sparsam
from benchmarks import data
from benchmarks.data import ModelClock, measure
from sparsam.lab.tasks.bits.copy import Copy
from sparsam.lab.training.config import RunConfig

NOW = [0.0]  # a clock that only `work` moves


def work(seconds: float) -> None:
    NOW[0] += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(data, "time", SimpleNamespace(process_time=lambda: NOW[0]))


class Busy(torch.autograd.Function):
    """Works for 10 ms on the way there and for 20 ms on the way back."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        work(0.01)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        work(0.02)
        return gradient


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return Busy.apply(x * self.weight + self.bias), None


def test_clock_counts_forward_and_backward_and_nothing_else():
    clock = ModelClock(model := Model())
    for _ in range(3):
        work(0.05)
        outputs, _ = model(torch.ones(3))
        work(0.05)
        loss = outputs.sum()
        loss.backward()
        work(0.05)
    assert clock.seconds == pytest.approx(0.09)
    with torch.no_grad():
        model(torch.ones(3))
    assert clock.seconds == pytest.approx(0.10)


def test_shares_of_the_time(monkeypatch):
    """A minibatch takes 3 to draw and 1 to run."""
    draw, run = Copy.sample, sparsam.LSTM.run
    monkeypatch.setattr(Copy, "sample", lambda *args: (work(3), draw(*args))[1])
    monkeypatch.setattr(sparsam.LSTM, "run", lambda *args: (work(1), run(*args))[1])
    config = RunConfig().with_settings(["model.name=lstm", "model.hidden_size=8", "task.settings.max_size=3"])
    found = measure(config, None, 40.0)
    assert (found["drawing minibatches"], found["outside the model"]) == pytest.approx((0.75, 0.75))
    assert found["time steps per second"] > 0
