"""The LSTM baseline on a padded batch on a CPU, in turns with torch's packed one and with `nn.LSTM` on the padding.

B = 32, 160 inputs, 256 units, forward and backward; lengths are spread evenly from half of T to T. Outputs and
gradients are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import benchmark
from benchmarks.report import Line, Report
from benchmarks.timing import take_turns
from sparsam.controllers.padded import in_pieces, packed

BATCH, INPUTS, UNITS = 32, 160, 256
Ways = dict[str, Callable[[], Tensor]]


def ways(steps: int, batch: int = BATCH, units: int = UNITS) -> tuple[nn.LSTM, Tensor, Ways]:
    """An LSTM, its input, and the hidden states by each of the three ways; past the ends they count nothing."""
    torch.manual_seed(0)
    lstm, x = nn.LSTM(INPUTS, units), torch.randn(steps, batch, INPUTS, requires_grad=True)
    ends = torch.linspace(max(steps // 2, 1), steps, batch).long()
    inside = (torch.arange(steps)[:, None] < ends)[..., None]
    carried = (torch.zeros(1, batch, units), torch.zeros(1, batch, units))
    found: Ways = {
        "in pieces": lambda: in_pieces(lstm, x, carried, ends)[0],
        "packed": lambda: packed(lstm, x, carried, ends)[0],
        "padding and all": lambda: lstm(x, carried)[0] * inside,
    }
    return lstm, x, found


def difference(lstm: nn.LSTM, x: Tensor, found: Ways) -> float:
    """The largest difference of outputs and gradients from the packed batch, over the largest number there."""
    results = {}
    for name, way in found.items():
        y = way()
        results[name] = [y.detach(), *torch.autograd.grad(y.square().sum(), [x, *lstm.parameters()])]
    packed = results.pop("packed")
    pairs = [pair for other in results.values() for pair in zip(other, packed)]
    return max(float((mine - theirs).abs().max() / theirs.abs().max()) for mine, theirs in pairs)


@benchmark("The LSTM baseline on padded batches, compared with torch's packed sequences.")
def run(out: Path, quick: bool = False) -> Report:
    """Ratios at two or four lengths."""
    report = Report("padded")
    for steps in (60, 120) if quick else (60, 120, 240, 480):
        lstm, x, found = ways(steps)
        report.add(Line(f"T {steps}: outputs and gradients, largest difference", difference(lstm, x, found), "", 1e-4))
        calls = {name: (lambda way=way: way().sum().backward()) for name, way in found.items()}
        timings = take_turns(calls, 2.0 if quick else 10.0, warmup=1)
        mine = timings["in pieces"].median
        report.add(Line(f"T {steps}: packed over ours", timings["packed"].median / mine, "x", 1.0, at_most=False))
        report.add(Line(f"T {steps}: ours over nn.LSTM on the padding", mine / timings["padding and all"].median))
        report.raw[str(steps)] = {name: timing.median for name, timing in timings.items()}
    return report
