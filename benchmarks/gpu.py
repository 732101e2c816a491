"""`sparsam bench gpu`: the GPU engine against cuDNN's `nn.LSTM`, the reference and attention, on one GPU.

T = 100 steps forward and backward unless a line says otherwise; R 4, K 4, W 32, I 8, float32; medians of turns.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import Line, Report
from benchmarks.timing import take_turns
from sparsam.engines.cuda import program
from sparsam.engines.cuda.layout import layout_of
from sparsam.engines.cuda.memory import fresh_memory
from sparsam.memories.description import SparseSizes
from sparsam.models import build

SIZES: dict[str, Any] = {"input_size": 8, "output_size": 8, "hidden_size": 100}
MEMORY: dict[str, Any] = {"memory_size": 1 << 20, "word_size": 32, "num_heads": 4, "k": 4}
LSTM_INPUT = 136  # what SAM's controller sees
STEPS = 100
LIMITS = {100: {8: 2.0, 32: 2.0, 128: 2.0, 512: 3.0, 1024: 3.0}, 256: {8: 1.5, 128: 1.5, 512: 3.0, 1024: 3.0}}
CHECKED = {"memory_size": 512, "steps": 6, "batch": 4}
TOLERANCE = 1e-4
NOT_THERE = ["filled 1,048,576 words, approximate search: the engine has none"]

Call = Callable[[], object]


def run(out: Path, quick: bool = False) -> Report:
    """Check, time in turns, print, and write gpu.json."""
    if not torch.cuda.is_available():
        raise RuntimeError("`sparsam bench gpu` needs a GPU that torch can see; torch.cuda.is_available() is False")
    report = Report("gpu")
    report.raw["gpu"] = torch.cuda.get_device_name()
    report.raw["not there"] = NOT_THERE
    seconds = 0.4 if quick else 3.0
    for name in ("sam", "sdnc"):
        report.raw[f"{name} differs from the reference by"] = checked(name, "cuda", "cuda")
    batches(report, seconds)
    filled(report, seconds)
    peak(report)
    single_steps(report, seconds)
    dense(report, seconds)
    half(report, seconds)
    attention(report, (1024,) if quick else (1024, 4096, 16384))
    print(report.table())
    print("\n".join(NOT_THERE))
    print(report.write(out))
    return report


def batches(report: Report, seconds: float) -> None:
    """Every batch size against `nn.LSTM` of the same."""
    for hidden, limits in LIMITS.items():
        for batch, limit in limits.items():
            times = measure("cuda", "cuda", batch, seconds, linked=hidden == 100, hidden_size=hidden)
            report.raw[f"us per step, H {hidden}, B {batch}"] = {name: spent * 1e6 for name, spent in times.items()}
            lstm = times["nn.LSTM"]
            report.add(Line(f"SAM over nn.LSTM, H {hidden}, B {batch}", times["sam"] / lstm, "x", limit))
            if hidden == 100:
                report.add(Line(f"SDNC over SAM, B {batch}", times["sdnc"] / times["sam"], "x", 1.4))


def measure(
    device: str, engine: str, batch: int, seconds: float, linked: bool = True, steps: int = STEPS, **sizes: Any
) -> dict[str, float]:
    """Seconds per step, forward and backward, of nn.LSTM and of SAM and SDNC on `engine`; forward alone too."""
    torch.manual_seed(0)
    kwargs = {**SIZES, **MEMORY, **sizes}
    x = torch.randn(steps, batch, kwargs["input_size"], device=device)
    seen = torch.randn(steps, batch, LSTM_INPUT, device=device)
    lstm = torch.nn.LSTM(LSTM_INPUT, kwargs["hidden_size"]).to(device)
    calls: dict[str, Call] = {"nn.LSTM": lambda: train(lstm, seen)}
    for name in ("sam", "sdnc") if linked else ("sam",):
        model = build(name, engine=engine, **kwargs).to(device)
        calls[name] = lambda model=model: train(model, x)  # type: ignore[misc]
        calls[f"{name} forward"] = lambda model=model: forward(model, x)  # type: ignore[misc]
    return {name: timing.median / steps for name, timing in take_turns(calls, seconds).items()}


def checked(name: str, device: str, engine: str) -> float:
    """The largest relative difference from the reference, from given words (no two scores alike).

    Raises RuntimeError where it is more than rounding: what differs is not timed.
    """
    torch.manual_seed(0)
    rows, steps, batch = CHECKED["memory_size"], CHECKED["steps"], CHECKED["batch"]
    fast = build(name, engine=engine, **{**SIZES, **MEMORY, "memory_size": rows}).to(device)
    plain = copy.deepcopy(fast)
    plain.engine = "reference"
    x = torch.randn(steps, batch, SIZES["input_size"], device=device)
    words = torch.randn(batch, rows, MEMORY["word_size"], device=device)
    results = []
    for model in (fast, plain):
        y, _ = model(x, model.initial_state(batch, initial_memory=words))
        results.append([y.detach(), *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
    difference = max(float((a - b).norm() / b.norm().clamp_min(1e-12)) for a, b in zip(*results))
    if not difference <= TOLERANCE:
        raise RuntimeError(f"engine {engine!r} differs from the reference by {difference:.1e} on {name}")
    return difference


def filled(report: Report, seconds: float) -> None:
    """Memories full of words, B 8: all of them are searched at every step."""
    spent: dict[str, float] = {}
    for rows, steps in ((2048, 100), (16384, 100), (65536, 100), (262144, 20), (1048576, 10)):
        spent |= {name: value * 1e6 for name, value in _filled(rows, steps, seconds / 2).items()}
        torch.cuda.empty_cache()
    report.raw["us per step, filled, B 8"] = spent
    blank = report.raw["us per step, H 100, B 8"]["sam"]
    report.add(Line("filled 65,536 words over blank, B 8", spent["65,536"] / blank, "x", 1.5))
    report.add(Line("filled 1,048,576 words, exact, B 8", spent["1,048,576"] / 1e3, "ms a step", 0.7))


def _filled(rows: int, steps: int, seconds: float) -> dict[str, float]:
    """Seconds per step, forward and backward, and forward alone."""
    model = build("sam", engine="cuda", **{**SIZES, **MEMORY, "memory_size": rows}).cuda()
    x = torch.randn(steps, 8, SIZES["input_size"], device="cuda")
    state = model.initial_state(8, initial_memory=torch.randn(rows, MEMORY["word_size"], device="cuda"))
    calls: dict[str, Call] = {
        f"{rows:,}": lambda: train(model, x, state),
        f"{rows:,} forward": lambda: forward(model, x, state),
    }
    return {name: timing.median / steps for name, timing in take_turns(calls, seconds, warmup=1).items()}


def peak(report: Report) -> None:
    """Bytes of a forward and backward pass over a blank memory of a million words."""
    model = build("sam", engine="cuda", **SIZES, **MEMORY).cuda()
    x = torch.randn(STEPS, 32, SIZES["input_size"], device="cuda")
    train(model, x)
    model.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    train(model, x)
    reached = (torch.cuda.max_memory_allocated() - before) / 2**30
    report.add(Line("peak bytes, blank 1,048,576 words, B 32, T 100", reached, "GiB", 0.2))


def single_steps(report: Report, seconds: float) -> None:
    """One step per call without a gradient, B 16, each going on from the state of the last."""
    model = build("sam", engine="cuda", **SIZES, **MEMORY).cuda()
    lstm = torch.nn.LSTM(LSTM_INPUT, SIZES["hidden_size"]).cuda()
    x, seen = torch.randn(1, 16, SIZES["input_size"], device="cuda"), torch.randn(1, 16, LSTM_INPUT, device="cuda")
    spent = {}
    with torch.no_grad():
        for name, called, given in (("sam", model, x), ("nn.LSTM", lstm, seen)):
            state: Any = None
            times: list[float] = []
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or len(times) < 5:
                begin = time.perf_counter()
                for _ in range(20):
                    _, state = called(given, state)
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) / 20)
            spent[name] = statistics.median(times)
    report.raw["us a call of one step, B 16"] = {name: value * 1e6 for name, value in spent.items()}
    report.add(Line("one step per call over nn.LSTM, no gradient, B 16", spent["sam"] / spent["nn.LSTM"], "x", 2.0))


def dense(report: Report, seconds: float) -> None:
    """The dense models as CUDA graphs against the reference, 128 words, B 32, 20 steps."""
    steps = 20
    for name in ("ntm", "dam", "dnc"):
        torch.manual_seed(0)
        fast = build(name, engine="cuda", **SIZES, memory_size=128).cuda()
        plain = copy.deepcopy(fast)
        plain.engine = "reference"
        x = torch.randn(steps, 32, SIZES["input_size"], device="cuda")
        calls: dict[str, Call] = {
            "fast": lambda model=fast, x=x: train(model, x),  # type: ignore[misc]
            "plain": lambda model=plain, x=x: train(model, x),  # type: ignore[misc]
        }
        times = take_turns(calls, seconds)
        spent = {key: timing.median / steps * 1e6 for key, timing in times.items()}
        report.raw[f"us per step, {name}, 128 words, B 32"] = spent
        faster = spent["plain"] / spent["fast"]
        report.add(Line(f"reference over CUDA graphs, {name.upper()}, B 32", faster, "x", 10.0, at_most=False))


def half(report: Report, seconds: float) -> None:
    """bfloat16 weights and activations against float32, B 32."""
    calls: dict[str, Call] = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = build("sam", engine="cuda", **SIZES, **MEMORY).to("cuda", dtype)
        x = torch.randn(STEPS, 32, SIZES["input_size"], device="cuda", dtype=dtype)
        calls[str(dtype)] = lambda model=model, x=x: train(model, x)  # type: ignore[misc]
    times = take_turns(calls, seconds)
    ratio = times["torch.bfloat16"].median / times["torch.float32"].median
    report.add(Line("bfloat16 over float32, SAM, B 32", ratio, "x", 1.0))


def attention(report: Report, lengths: tuple[int, ...]) -> None:
    """The memory without a controller against attention of width 512, B 32, forward and backward."""
    for length in lengths:
        heads = torch.randn(3, 32, 8, length, 64, device="cuda", dtype=torch.bfloat16).requires_grad_()
        sizes = SparseSizes(rows=1 << 20, width=32, heads=4, k=4)
        asked = torch.randn(length, 32, layout_of(sizes, "none", 0).F, device="cuda")
        calls: dict[str, Call] = {
            "memory": lambda sizes=sizes, asked=asked: memory_alone(sizes, asked),  # type: ignore[misc]
            "attention": lambda heads=heads: attend(heads),  # type: ignore[misc]
        }
        times = take_turns(calls, 0.2, warmup=1)
        spent = {name: timing.median / length * 1e6 for name, timing in times.items()}
        report.raw[f"us per step, T {length}, B 32"] = spent
        figure = f"memory without controller over bfloat16 attention of width 512, T {length:,}, B 32"
        report.add(Line(figure, spent["memory"] / spent["attention"]))


def memory_alone(sizes: SparseSizes, asked: torch.Tensor) -> None:
    """The memory driven by given interfaces (T, B, F), forward and backward."""
    batch = asked.shape[1]
    rows = torch.full((batch, sizes.heads, sizes.k), -1, device=asked.device)
    read = asked.new_zeros(batch, sizes.heads, sizes.width)
    memory = fresh_memory(sizes, batch, None, asked)
    before = program.Before(None, None, read, rows, asked.new_zeros(rows.shape), memory)
    joint, _, made = program.forward(sizes, "none", asked, None, before)
    program.backward(made, torch.ones_like(joint))
    _synchronize(asked)


def attend(heads: torch.Tensor) -> None:
    query, key, value = heads
    torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()
    _synchronize(heads)


def train(model: torch.nn.Module, x: torch.Tensor, *state: Any) -> None:
    model(x, *state)[0].square().mean().backward()
    _synchronize(x)


def forward(model: torch.nn.Module, x: torch.Tensor, *state: Any) -> None:
    with torch.no_grad():
        model(x, *state)
    _synchronize(x)


def _synchronize(x: torch.Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize()
