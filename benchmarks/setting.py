"""The setting of the paper's benchmarks (supplementary E) and the calls that are timed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sparsam.models import build

SIZES = {"input_size": 8, "output_size": 8, "hidden_size": 100, "word_size": 32, "num_heads": 4}
BATCH, STEPS = 8, 100
LSTM_INPUT = SIZES["input_size"] + SIZES["num_heads"] * SIZES["word_size"]  # what SAM's controller sees: 136
PROTOCOL = (
    f"Batch {BATCH}, {STEPS} steps, {SIZES['hidden_size']} hidden units, words of {SIZES['word_size']} numbers, "
    f"{SIZES['num_heads']} heads, K = 4, forward and backward, where a line says nothing else. Each benchmark first "
    "checks outputs and gradients against the reference engine."
)


def model_of(name: str, memory_size: int, **kwargs: Any) -> Any:
    """A model of the setting."""
    torch.manual_seed(0)
    return build(name, memory_size=memory_size, **SIZES, **kwargs)


def training_step(model: Any, steps: int = STEPS, batch: int = BATCH, state: Any = None) -> Callable[[], None]:
    """Forward and backward over a sequence, weight gradients included."""
    x = torch.randn(steps, batch, SIZES["input_size"])

    def call() -> None:
        y, _ = model(x, state)
        y.sum().backward()

    return call


def lstm_step(steps: int = STEPS, batch: int = BATCH) -> Callable[[], None]:
    """The same of `torch.nn.LSTM(136, 100)`, what everything is measured against."""
    lstm = torch.nn.LSTM(LSTM_INPUT, SIZES["hidden_size"])
    x = torch.randn(steps, batch, LSTM_INPUT)

    def call() -> None:
        y, _ = lstm(x)
        y.sum().backward()

    return call
