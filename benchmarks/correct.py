"""No engine is timed before its outputs and gradients equal the reference's on a small case."""

from __future__ import annotations

import copy
from typing import Any

import torch

from sparsam.models import build


def require_equal(name: str, engine: str = "native", tolerance: float = 1e-9, **kwargs: Any) -> float:
    """Compare a small model on `engine` with the reference in float64; returns the largest relative error.

    Raises RuntimeError when the engine is wrong: a benchmark of it would say nothing.
    """
    torch.manual_seed(0)
    sizes = {"input_size": 4, "output_size": 3, "hidden_size": 20, "memory_size": 40, "word_size": 8, **kwargs}
    fast = build(name, engine=engine, **sizes).double()
    plain = copy.deepcopy(fast)
    plain.engine = "reference"
    x = torch.randn(12, 3, 4, dtype=torch.float64)
    worst = 0.0
    for ours, theirs in zip(_everything(fast, x), _everything(plain, x)):
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)))
    if not worst <= tolerance:
        raise RuntimeError(f"engine {engine!r} differs from the reference by {worst:.1e} on {name}; not timing it")
    return worst


def _everything(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    y, state = model(x)
    loss = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + state.read.sum()
    if state.hidden is not None:
        loss = loss + state.hidden.sum()
    return [y.detach(), *torch.autograd.grad(loss, [x, *model.parameters()])]
