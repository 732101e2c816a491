"""The comparison of bfloat16 with float32, in small on the engine that every machine has."""

from __future__ import annotations

import pytest
import torch

from benchmarks import gpu_learning


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", ["copy", "recall"])
def test_it_learns_and_says_how_well(name, small, monkeypatch):
    monkeypatch.setattr(gpu_learning, "LAST", 2)
    found = gpu_learning.learn(name, torch.float32, 3, small, "cpu", "native")
    assert found["minibatches"] == 3 and found["seconds"] > 0
    assert next(iter(found.values())) > 1  # untrained: many bits are wrong
