"""A run that is over in a moment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparsam.lab.training.config import RunConfig

TINY = [
    "model.name=lstm", "model.hidden_size=8", "task.name=copy", "task.settings={\"bits\": 2, \"max_size\": 3}",
    "steps=30", "batch_size=4", "log_every=5", "eval_every=10", "eval_batches=1", "eval_batch_size=4",
    "checkpoint_every=10", "tensorboard=false", "threads=1",
]  # fmt: skip


@pytest.fixture
def tiny() -> Any:
    """`tiny("steps=5", ...)`: a small LSTM on a small copy task."""

    def make(*settings: str) -> RunConfig:
        return RunConfig().with_settings([*TINY, *settings])

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
