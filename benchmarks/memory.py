"""`sparsam bench memory`: what training keeps, over the size of the memory (figure 1b)."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.resident import graph_bytes, kept_bytes, resident_bytes
from benchmarks.setting import PROTOCOL as PROTOCOL
from benchmarks.setting import SIZES, STEPS, model_of

SPARSE_SIZES = (64, 1_024, 65_536, 1_000_000, 2_000_000)
DENSE_SIZES = (64, 256, 1_024, 4_096, 16_384, 65_536)
KIB, MIB = 1024, 1024**2


@benchmark("Bytes kept for the backward pass, by size of the memory (figure 1b).")
def run(out: Path, quick: bool = False) -> Report:
    """Check, measure, print, and write memory.json and memory.png."""
    report = Report("memory")
    print(f"native equals reference to {require_equal('sam'):.0e}")
    sparse = {size: sam_bytes(size) for size in SPARSE_SIZES}
    per_step = {size: kept / STEPS / KIB for size, kept in sparse.items()}
    report.add(Line("SAM bytes kept per step, B = 1, N = 1,000,000", per_step[1_000_000], "KiB", 8, paper="80 KiB"))
    growth = max(per_step.values()) / min(per_step.values())
    report.add(Line("the same, largest over smallest of N = 64 to 2,000,000", growth, bound=1.0, timed=False))
    dense_sizes = DENSE_SIZES[:4] if quick else DENSE_SIZES
    dense = {name: {size: dense_bytes(name, size) for size in dense_sizes} for name in ("ntm", "dam")}
    largest = dense_sizes[-1]
    report.add(
        Line(
            f"NTM bytes over SAM bytes for 100 steps, N = {largest:,}, B = 1",
            dense["ntm"][largest] / sparse[65_536],
            bound=None if quick else 5_000,
            at_most=False,
            paper="3,700",
            timed=False,
        )
    )
    state = blank_state()
    report.add(Line("making, touching and dropping a blank million-word state", state["ms"], "ms", 1.0))
    report.add(Line("resident bytes of it", state["resident"] / MIB, "MiB", 1.0, paper="53 MiB at 64K"))
    report.raw["long"] = long_sequence(10_000 if quick else 100_000)
    for steps, entry in report.raw["long"].items():
        report.add(Line(f"T = {int(steps):,}, N = 2,000,000, B = 1: kept per step", entry["kib per step"], "KiB", 8))
    report.raw["bytes for 100 steps"] = {"sam": sparse, **dense}
    _plot(report.raw["bytes for 100 steps"], out / "memory.png")
    print(report.table())
    print(report.write(out))
    return report


def sam_bytes(size: int, steps: int = STEPS) -> int:
    """Bytes that the native engine keeps for a backward pass over `steps`."""
    y, _ = model_of("sam", size)(torch.randn(steps, 1, SIZES["input_size"]))
    return kept_bytes(y)


def dense_bytes(name: str, size: int) -> int:
    """Bytes that autograd keeps of a dense model over 100 steps, B = 1; measured over 4 steps, which are all alike."""
    model = model_of(name, size, engine="reference")
    start = model.initial_state(1)
    few, more = (graph_bytes(partial(model, torch.randn(t, 1, SIZES["input_size"]), start)) for t in (2, 6))
    return few + (more - few) * (STEPS - 2) // 4


def blank_state() -> dict[str, float]:
    """Time and resident memory of a blank million-word state, made, touched by one step, and dropped."""
    model = model_of("sam", 1_000_000)
    x = torch.randn(1, 1, SIZES["input_size"])
    with torch.no_grad():
        for _ in range(3):
            model(x)
        times = []
        for _ in range(50):
            begin = time.perf_counter()
            state = model.initial_state(1)
            model(x, state)
            del state
            times.append(time.perf_counter() - begin)
        before = resident_bytes()
        held = [model(x)[1] for _ in range(32)]
        resident = (resident_bytes() - before) / len(held)
    return {"ms": sorted(times)[len(times) // 2] * 1e3, "resident": resident}


def long_sequence(longest: int) -> dict[str, Any]:
    """Forward and backward over very long sequences: bytes per step must not grow, nor time more than the search."""
    found: dict[str, Any] = {}
    for steps in (longest // 10, longest):
        model = model_of("sam", 2_000_000)
        before = resident_bytes()
        begin = time.perf_counter()
        y, _ = model(torch.randn(steps, 1, SIZES["input_size"]))
        kept, grown = kept_bytes(y), resident_bytes() - before
        y.sum().backward()
        seconds = time.perf_counter() - begin
        found[str(steps)] = {
            "kib per step": kept / steps / KIB,
            "resident kib per step": grown / steps / KIB,
            "us per step": seconds / steps * 1e6,
        }
        print(f"  T = {steps:,}: {seconds:.1f} s", flush=True)
    return found


def _plot(found: dict[str, dict[int, int]], path: Path) -> None:
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(6.4, 4.2)
    axis = axes[0, 0]
    for colour, name in zip(COLOURS, ("sam", "dam", "ntm")):
        sizes = sorted(found[name])
        axis.loglog(sizes, [found[name][size] / MIB for size in sizes], "o-", color=colour)
        last = (sizes[-1], found[name][sizes[-1]] / MIB)
        axis.annotate(name.upper(), last, (6, 0), textcoords="offset points", color=colour)
    axis.set_xlabel("words in memory, N")
    axis.set_ylabel("MiB kept to train over 100 steps, B = 1")
    save(figure, path)
