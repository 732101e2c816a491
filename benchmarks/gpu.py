"""`sparsam bench gpu`: time per step of the GPU engine against `nn.LSTM` and the reference on the same GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Line, Report
from benchmarks.timing import take_turns
from sparsam.models import build

SIZES: dict[str, Any] = {"input_size": 160, "output_size": 160, "hidden_size": 128}
MEMORY: dict[str, Any] = {"memory_size": 2048, "word_size": 32, "num_heads": 4, "k": 4}
STEPS = 100
REFERENCE_STEPS = 10  # the reference keeps every step's memory
TOLERANCE = 1e-4


def run(out: Path, quick: bool = False) -> Report:
    """Check, time in turns, print, and write gpu.json."""
    if not torch.cuda.is_available():
        raise RuntimeError("`sparsam bench gpu` needs a GPU that torch can see; torch.cuda.is_available() is False")
    report = Report("gpu")
    report.raw["gpu"] = torch.cuda.get_device_name()
    for batch in (32,) if quick else (32, 128):
        times = measure("cuda", "cuda", batch, 2.0 if quick else 10.0)
        report.raw[f"us per step, B = {batch}"] = {name: spent * 1e6 for name, spent in times.items()}
        for name in ("sam", "sdnc"):
            report.add(Line(f"{name.upper()} step over nn.LSTM step, B = {batch}", times[name] / times["nn.LSTM"]))
            ratio = times[f"{name} reference"] / times[name]
            report.add(Line(f"reference over GPU engine, {name.upper()}, B = {batch}", ratio))
            report.add(Line(f"{name.upper()} steps per second, B = {batch}", batch / times[name], ""))
    print(report.table())
    print(report.write(out))
    return report


def measure(device: str, engine: str, batch: int, seconds: float, **sizes: Any) -> dict[str, float]:
    """Seconds per step, forward and backward, of nn.LSTM, and of SAM and SDNC on `engine` and on the reference."""
    torch.manual_seed(0)
    kwargs = {**SIZES, **MEMORY, **sizes}
    x = torch.randn(STEPS, batch, kwargs["input_size"], device=device)
    short = x[:REFERENCE_STEPS]
    lstm = torch.nn.LSTM(kwargs["input_size"], kwargs["hidden_size"]).to(device)
    candidates: dict[str, Callable[[], object]] = {"nn.LSTM": lambda: _train(lstm, x, device)}
    for name in ("sam", "sdnc"):
        fast = build(name, engine=engine, **kwargs).to(device)
        plain = copy.deepcopy(fast)
        plain.engine = "reference"
        difference = _difference(fast, plain, short)
        if not difference <= TOLERANCE:
            raise RuntimeError(f"engine {engine!r} differs from the reference by {difference:.1e} on {name}")
        candidates[name] = lambda model=fast: _train(model, x, device)  # type: ignore[misc]
        candidates[f"{name} reference"] = lambda model=plain: _train(model, short, device)  # type: ignore[misc]
    times = take_turns(candidates, seconds)
    return {
        name: timing.median / (REFERENCE_STEPS if name.endswith("reference") else STEPS)
        for name, timing in times.items()
    }


def _train(model: torch.nn.Module, x: torch.Tensor, device: str) -> None:
    model(x)[0].square().mean().backward()
    if device == "cuda":
        torch.cuda.synchronize()


def _difference(fast: torch.nn.Module, plain: torch.nn.Module, x: torch.Tensor) -> float:
    """Largest relative difference of outputs and gradients."""
    results = []
    for model in (fast, plain):
        y, _ = model(x)
        results.append([y.detach(), *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
    return max(float((a - b).norm() / b.norm().clamp_min(1e-12)) for a, b in zip(*results))
