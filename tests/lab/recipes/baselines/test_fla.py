"""The adapters of flash-linear-attention, with a stand-in for the library."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sparsam.lab.recipes.baselines.model import make_mixer


class _Shift(nn.Module):
    """Takes (B, T, D) and gives what came one step earlier, as a layer of that library would: first of a tuple."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, x: Tensor) -> tuple[Tensor, None, None]:
        assert x.is_contiguous()
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1), None, None


@pytest.mark.parametrize("name", ["fla-delta", "fla-mamba2"])
def test_a_layer_is_called_batch_first_with_the_width_of_the_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fla, layers = types.ModuleType("fla"), types.ModuleType("fla.layers")
    layers.DeltaNet = layers.Mamba2 = _Shift  # type: ignore[attr-defined]
    fla.layers = layers  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fla", fla)
    monkeypatch.setitem(sys.modules, "fla.layers", layers)
    mixer = make_mixer(name, 64)
    assert mixer.layer.settings["hidden_size"] == 64 and mixer.layer.settings["num_heads"] == 4
    x = torch.randn(5, 2, 64)
    y, state = mixer(x)
    assert y[1:].equal(x[:-1]) and state is None
    with pytest.raises(ValueError, match="state: expected None for"):
        mixer(x, object())


@pytest.mark.skipif(importlib.util.find_spec("fla") is not None, reason="flash-linear-attention is installed here")
def test_without_the_library_the_error_names_it() -> None:
    with pytest.raises(ImportError, match="flash-linear-attention for DeltaNet"):
        make_mixer("fla-delta", 8)
