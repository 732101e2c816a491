"""Where gradients grow: a cut changes no output, and the gradient that it says it cuts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import gradient_paths
from benchmarks.gradient_paths import CUTS, CutSAM


def model_with(cut: str) -> CutSAM:
    torch.manual_seed(0)
    model = CutSAM(3, 2, hidden_size=6, memory_size=24, word_size=4, num_heads=2, k=2, engine="reference")
    model.memory.cut = cut  # type: ignore[attr-defined]
    return model


@pytest.mark.parametrize("cut", [cut for cut in CUTS if cut != "nothing"])
def test_a_cut_changes_the_gradient_and_no_output(cut: str) -> None:
    x = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(1))
    outputs, gradients = [], []
    for model in (model_with("nothing"), model_with(cut)):
        y = model(x)[0]
        y[-1].square().sum().backward()
        outputs.append(y)
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.equal(*outputs)
    assert not torch.allclose(*gradients, rtol=1e-3, atol=0)


def test_a_record_has_every_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_paths, "MOST", 3)
    said: list[Any] = []
    task, model = gradient_paths.trained(2, 0, 8, lambda *told: said.append(told))
    record = gradient_paths.with_cuts(task, model, 2, memory_size=32)
    assert list(record["cuts"]) == list(CUTS) and not said
    assert all(len(found["norms"]) == 2 and found["largest"] > 0 for found in record["cuts"].values())
    assert record["largest_r_over_last_r"]["largest"] >= 1
