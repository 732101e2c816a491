"""The clock of `sparsam bench data`: what the model does is inside, everything else outside."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

from benchmarks.data import ModelClock, measure
from sparsam.training.config import RunConfig
from sparsam.training.learner import Learner


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


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
    assert clock.seconds == pytest.approx(0.09, abs=0.02)
    with torch.no_grad():
        model(torch.ones(3))
    assert clock.seconds == pytest.approx(0.10, abs=0.02)


def test_slow_minibatches_are_outside_the_model(monkeypatch):
    config = RunConfig().with_settings(["model.name=lstm", "model.hidden_size=8", "task.settings.max_size=3"])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        quick = measure(config, None, 0.2)
        assert 0 < quick["drawing minibatches"] < quick["outside the model"] < 1
        assert quick["time steps per second"] > 0
        task = type(Learner(config).task)
        draw = task.sample
        monkeypatch.setattr(task, "sample", lambda *args: (work(0.05), draw(*args))[1])
        slow = measure(config, None, 0.4)
        assert slow["drawing minibatches"] > 0.7
        assert slow["outside the model"] > slow["drawing minibatches"]
    finally:
        torch.set_num_threads(before)
