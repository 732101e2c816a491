"""`sparsam bench gpu`: the GPU engine against cuDNN's `nn.LSTM`, the reference and attention, on one GPU.

T = 100 steps forward and backward unless a line says otherwise; R 4, K 4, W 32, I 8, float32; medians of turns.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import sparsam
from benchmarks import benchmark, trained_words
from benchmarks.report import Line, Report
from benchmarks.timing import once, take_turns
from sparsam.engines.cuda import engine as cuda_engine
from sparsam.engines.cuda.dense import sequence as cuda_dense
from sparsam.engines.cuda.memory import USED
from sparsam.lab import tasks
from sparsam.lab.recipes.figure3 import TASKS
from sparsam.lab.training.trained import load_model
from sparsam.models import build

SIZES: dict[str, Any] = {"input_size": 8, "output_size": 8, "hidden_size": 100}
MEMORY: dict[str, Any] = {"memory_size": 1 << 20, "word_size": 32, "num_heads": 4, "k": 4}
LSTM_INPUT = 136  # what SAM's controller sees
STEPS = 100
LIMITS = {100: {8: 2.0, 32: 2.0, 128: 2.0, 512: 3.0, 1024: 3.0}, 256: {8: 1.5, 128: 1.5, 512: 3.0, 1024: 3.0}}
CHECKED = {"memory_size": 512, "steps": 6, "batch": 4}
DENSE_WORDS = 128
TOLERANCE = 1e-4
FILLED = (2048, 16384, 65536, 262144, 1048576)
RECALL = 0.95

Call = Callable[[], object]


@benchmark("Time per step of SAM and SDNC on a GPU, compared with nn.LSTM and the reference.")
def run(out: Path, quick: bool = False) -> Report:
    """Check, time in turns, print, and write gpu.json."""
    if not torch.cuda.is_available():
        raise RuntimeError("`sparsam bench gpu` needs a GPU that torch can see; torch.cuda.is_available() is False")
    report = Report("gpu")
    report.raw["gpu"] = torch.cuda.get_device_name()
    seconds = 0.4 if quick else 3.0
    for name in ("sam", "sdnc", "ntm", "dam", "dnc"):
        report.raw[f"{name} differs from the reference by"] = checked(name, "cuda", "cuda")
    batches(report, seconds)
    filled(report, seconds)
    recall(report, 10_000 if quick else 50_000)
    peak(report)
    single_steps(report, seconds)
    dense(report, seconds)
    half(report, seconds)
    attention(report, (1024, 4096) if quick else (1024, 4096, 16384, 65536))
    print(report.table())
    print(report.write(out))
    if importlib.util.find_spec("matplotlib") is not None:
        plot(report.raw["us per step, layer and attention, B 32"], out / "gpu.png")
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
    settings = {**SIZES, **MEMORY, "memory_size": rows}
    if name in cuda_engine.DENSE:
        rows = settings["memory_size"] = DENSE_WORDS
        del settings["k"]
    fast = build(name, engine=engine, **settings).to(device)
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
    for rows in FILLED:
        spent |= {name: value * 1e6 for name, value in _filled(rows, seconds / 2).items()}
        torch.cuda.empty_cache()
    scanned = _filled(FILLED[-1], seconds / 2, index="scan")
    spent |= {f"{name}, scan": value * 1e6 for name, value in scanned.items()}
    torch.cuda.empty_cache()
    report.raw["us per step, filled, B 8"] = spent
    blank = report.raw["us per step, H 100, B 8"]["sam"]
    report.add(Line("filled 65,536 words over blank, B 8", spent["65,536"] / blank, "x", 1.5))
    report.add(Line("filled 1,048,576 words, exact, B 8", spent["1,048,576"] / 1e3, "ms a step", 0.7))
    report.add(Line("filled 1,048,576 words, scan, B 8", spent["1,048,576, scan"] / 1e3, "ms a step", 0.15))


def _filled(rows: int, seconds: float, **settings: Any) -> dict[str, float]:
    """Seconds per step, forward and backward, and forward alone."""
    model = build("sam", engine="cuda", **{**SIZES, **MEMORY, "memory_size": rows}, **settings).cuda()
    x = torch.randn(STEPS, 8, SIZES["input_size"], device="cuda")
    state = model.initial_state(8, initial_memory=torch.randn(rows, MEMORY["word_size"], device="cuda"))
    calls: dict[str, Call] = {
        f"{rows:,}": lambda: train(model, x, state),
        f"{rows:,} forward": lambda: forward(model, x, state),
    }
    return {name: timing.median / STEPS for name, timing in take_turns(calls, seconds, warmup=1).items()}


def recall(report: Report, pairs: int, device: str = "cuda", engine: str = "cuda") -> None:
    """The share of the words that exact search reads which a scan finds: words and queries of a trained model.

    The model reads so many pairs and is then asked for some. At every step both searches start from the same state.
    """
    trained: Any = load_model(trained_words.WEIGHTS)[0]
    sizes: dict[str, Any] = {"memory_size": trained_words.WORDS_PER_PAIR * (pairs + 400), "engine": engine}
    models = [
        sparsam.SAM(trained.input_size, trained.output_size, index=index, **sizes).to(device).eval()
        for index in ("linear", "scan")
    ]
    for model in models:
        model.load_state_dict(trained.state_dict())
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": trained_words.STEPS}))
    inputs = task.sample_size(1, torch.Generator().manual_seed(1), pairs).inputs.to(device)
    state: Any = None
    shares = []
    with torch.no_grad():
        for piece in inputs[:pairs].split(trained_words.PIECE):
            _, state = models[0](piece, state)
        for x in inputs[pairs:].split(1):
            _, scanned = models[1](x, state)
            _, state = models[0](x, state)
            same = scanned.read_rows[..., :, None] == state.read_rows[..., None, :]
            shares.append(same.any(-2).float().mean().item())
    words = int(state.memory.counters[0, USED]) if engine == "cuda" else 0
    report.raw["recall of a scan"] = {"pairs": pairs, "words": words, "steps": len(shares), "lowest": min(shares)}
    share = statistics.mean(shares)
    report.add(Line(f"recall of K of a scan, trained words of {pairs:,} pairs", share, "", RECALL, at_most=False))


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
    """The dense models by kernels against CUDA graphs, and those against the reference, 128 words, B 32.

    Kernels and graphs at the sizes of the bAbI runs, 100 steps; graphs and reference at those of this page, 20 steps.
    """
    for name in ("ntm", "dam", "dnc"):
        torch.manual_seed(0)
        sizes = {**SIZES, "input_size": 180, "hidden_size": 128, "word_size": 32, "num_heads": 4}
        by_kernels = build(name, engine="cuda", **sizes, memory_size=DENSE_WORDS).cuda()
        by_graphs = copy.deepcopy(by_kernels)
        x = torch.randn(STEPS, 32, 180, device="cuda")
        spent = turns({"kernels": by_kernels, "graphs": by_graphs}, x, seconds)
        report.raw[f"us per step, {name}, 128 words, H 128, B 32"] = spent
        faster = spent["graphs"] / spent["kernels"]
        report.add(Line(f"CUDA graphs over kernels, {name.upper()}, H 128, B 32", faster, "x", 4.0, at_most=False))

        captured = build(name, engine="cuda", **SIZES, memory_size=DENSE_WORDS).cuda()
        plain = copy.deepcopy(captured)
        plain.engine = "reference"
        x = torch.randn(20, 32, SIZES["input_size"], device="cuda")
        spent = turns({"graphs": captured, "plain": plain}, x, seconds)
        report.raw[f"us per step, {name}, 128 words, B 32"] = spent
        faster = spent["plain"] / spent["graphs"]
        report.add(Line(f"reference over CUDA graphs, {name.upper()}, B 32", faster, "x", 10.0, at_most=False))


def turns(models: dict[str, torch.nn.Module], x: torch.Tensor, seconds: float) -> dict[str, float]:
    """Microseconds a step, forward and backward, by model; the one named "graphs" runs without kernels."""

    def call(name: str, model: torch.nn.Module) -> None:
        without = mock.patch.object(cuda_dense, "has_kernel", return_value=False)
        with without if name == "graphs" else nullcontext():
            train(model, x)

    calls: dict[str, Call] = {name: functools.partial(call, name, model) for name, model in models.items()}
    return {name: timing.median / x.shape[0] * 1e6 for name, timing in take_turns(calls, seconds).items()}


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
    """The layer, D 512, against attention of that width in bfloat16, B 32, forward and backward."""
    spent: dict[str, dict[int, float]] = {"layer": {}, "layer, scan": {}, "attention": {}}
    for length in lengths:
        heads = torch.randn(3, 32, 8, length, 64, device="cuda", dtype=torch.bfloat16).requires_grad_()
        x = torch.randn(length, 32, 512, device="cuda")
        calls: dict[str, Call] = {"attention": lambda heads=heads: attend(heads)}  # type: ignore[misc]
        for name, index in (("layer", "linear"), ("layer, scan", "auto")):
            layer = sparsam.SparseMemory(512, memory_size=MEMORY["memory_size"], index=index, engine="cuda").cuda()
            calls[name] = lambda layer=layer, x=x: train(layer, x)  # type: ignore[misc]
        if length < 16384:
            times = take_turns(calls, 0.2, warmup=1)
        else:  # seconds each: once to compile, once to time
            times = {name: once(call) for _ in range(2) for name, call in calls.items()}
        for name, timing in times.items():
            spent[name][length] = timing.median / length * 1e6
        figure = f"SparseMemory(512) over bfloat16 attention of that width, T {length:,}, B 32"
        report.add(Line(figure, spent["layer"][length] / spent["attention"][length]))
        torch.cuda.empty_cache()
    report.raw["us per step, layer and attention, B 32"] = spent


def plot(spent: dict[str, dict[int, float]], path: Path) -> None:
    """How the layer and attention grow with the length."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(6.4, 3.8)
    for colour, (name, points) in zip(COLOURS, spent.items()):
        axes[0, 0].loglog(list(map(int, points)), list(points.values()), "o-", color=colour, label=name)
    axes[0, 0].set(xlabel="length T", ylabel="us per step, forward and backward, B 32")
    axes[0, 0].legend()
    save(figure, path)


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
