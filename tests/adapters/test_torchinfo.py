"""torchinfo shows a model in one row, and does not slow it down to look."""

from __future__ import annotations

import torch

import sparsam
from tests.adapters.conftest import guest

torchinfo = guest("torchinfo")


def test_one_row():
    model = sparsam.SAM(4, 3, hidden_size=8, memory_size=32, word_size=5, num_heads=2)
    net = torch.nn.ModuleDict({"first": torch.nn.Linear(4, 4), "memory": model})
    net.forward = lambda x: net["memory"](net["first"](x))[0]  # type: ignore[method-assign]
    found = torchinfo.summary(net, input_data=torch.randn(6, 2, 4), verbose=0)
    rows = [layer for layer in found.summary_list if layer.executed]
    assert [layer.class_name for layer in rows] == ["ModuleDict", "Linear", "SAM"]
    assert found.total_params == sum(p.numel() for p in net.parameters())


def test_other_hooks_are_called_as_before():
    model = sparsam.SAM(4, 3, hidden_size=8, memory_size=32, word_size=5, num_heads=2)
    seen = []
    model.controller.register_forward_hook(lambda *_: seen.append(1))
    torchinfo.summary(model, input_data=torch.randn(6, 2, 4), verbose=0)
    assert len(seen) == 6
