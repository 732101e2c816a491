"""A run that is over in a moment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sparsam.lab.training.config import RunConfig
from tests.lab.training.faults import injection

LONGER = ("steps=30", "log_every=5", "eval_every=10", "checkpoint_every=10")


@pytest.fixture
def tiny() -> Any:
    """`tiny("steps=5", ...)`: a small LSTM on a small copy task."""

    def make(*settings: str) -> RunConfig:
        return injection.tiny(*LONGER, *settings)

    return make


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
