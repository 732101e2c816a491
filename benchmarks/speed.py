"""`sparsam bench speed`: forward and backward time of the models over the size of the memory (figure 1a)."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch

from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.resident import available_bytes
from benchmarks.setting import BATCH, STEPS, lstm_step, model_of, training_step
from benchmarks.setting import PROTOCOL as PROTOCOL
from benchmarks.timing import once, take_turns

MILLION = 1_000_000
SPARSE_SIZES = (64, 1_000, 16_384, 131_072, MILLION, 2_000_000)
DENSE_SIZES = (64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, MILLION)
FILLED = {  # curves beside that of blank memories
    "SAM, filled, exact": "linear",
    "SAM, filled, auto": "auto",
    "SAM, filled, k-d forest": "kdtree",
    "SAM, filled, LSH": "lsh",
}
DENSE_TENSORS = 24  # (B, N, W) tensors that a dense step keeps or makes, at most; decides what fits


@benchmark("Time per step of SAM, DAM and NTM by size of the memory, compared with nn.LSTM (figure 1a).")
def run(out: Path, quick: bool = False) -> Report:
    """Check, time, print, and write speed.json and speed.png."""
    report = Report("speed")
    print(f"native equals reference to {require_equal('sam'):.0e}; {torch.get_num_threads()} threads")
    seconds = 4.0 if quick else 20.0
    times = take_turns(
        {
            "nn.LSTM(136, 100)": lstm_step(),
            "SAM 1,000,000": training_step(model_of("sam", MILLION)),
            "SAM 1,000": training_step(model_of("sam", 1_000)),
        },
        seconds,
    )
    per_step = {name: timing.median / STEPS for name, timing in times.items()}
    report.raw["us per step"] = {name: spent * 1e6 for name, spent in per_step.items()}
    sam = per_step["SAM 1,000,000"]
    large, small, lstm = (times[name] for name in ("SAM 1,000,000", "SAM 1,000", "nn.LSTM(136, 100)"))
    report.add(Line.ratio("SAM step, N = 1,000,000 blank, over nn.LSTM step", large, lstm, STEPS, bound=1.4))
    report.add(Line.ratio("SAM step at N = 1,000,000 over N = 1,000", large, small, STEPS, bound=1.1))
    dense_size = 65_536 if quick else MILLION
    ntm = dense_step("ntm", dense_size)
    report.raw["us per step"][f"NTM {dense_size:,}"] = ntm["seconds"] * 1e6
    filled = filled_step(dense_size)
    report.raw["us per step"][f"SAM filled {dense_size:,}"] = filled * 1e6
    label = f"N = {dense_size:,}"
    report.add(Line(f"NTM step over SAM step, {label} filled, exact search", ntm["seconds"] / filled, paper="100"))
    report.add(
        Line(f"NTM step over SAM step, {label} blank", ntm["seconds"] / sam, bound=20_000, at_most=False, paper="1,600")
    )
    report.raw["curves"] = curves(quick, per_step["nn.LSTM(136, 100)"])
    _plot(report.raw["curves"], out / "speed.png")
    print(report.table())
    print(report.write(out))
    return report


def dense_step(name: str, size: int) -> dict[str, Any]:
    """Seconds per step of a dense model for a batch of 8. Where 8 do not fit, fewer are timed and the time scaled.

    A dense step is linear in the batch: it streams B·N·W numbers through the memory bus.
    """
    bytes_per_element = DENSE_TENSORS * size * 32 * 4
    batch = max(1, min(BATCH, int(available_bytes() * 0.5 / bytes_per_element)))
    steps = max(1, min(10, int(available_bytes() * 0.4 / (bytes_per_element * batch))))
    call = training_step(model_of(name, size, engine="reference"), steps, batch)
    gc.collect()
    call()
    seconds = once(call, 3).median / steps * BATCH / batch
    return {"seconds": seconds, "batch": batch, "steps": steps}


def filled_step(size: int, index: str = "linear") -> float:
    """Seconds per step of SAM over a memory full of random unit words, shared by the batch."""
    model = model_of("sam", size, index=index)
    words = torch.nn.functional.normalize(torch.randn(size, 32), dim=-1)
    state = model.initial_state(BATCH, initial_memory=words)
    steps = 4 if index == "linear" else STEPS
    call = training_step(model, steps=steps, state=state)
    call()
    return once(call, 3).median / steps


def curves(quick: bool, lstm: float) -> dict[str, Any]:
    """Milliseconds per step over N, as in figure 1a."""
    found: dict[str, Any] = {
        "LSTM": {"all": lstm * 1e3},
        "SAM": {},
        **{name: {} for name in FILLED},
        "DAM": {},
        "NTM": {},
    }
    for size in SPARSE_SIZES:
        call = training_step(model_of("sam", size))
        found["SAM"][size] = take_turns({"sam": call}, 0.5)["sam"].median / STEPS * 1e3
        for name, index in FILLED.items():
            if size <= (DENSE_SIZES[5] if quick else MILLION):
                found[name][size] = filled_step(size, index) * 1e3
    for name in ("ntm", "dam"):
        for size in DENSE_SIZES[:4] if quick else DENSE_SIZES:
            found[name.upper()][size] = dense_step(name, size)["seconds"] * 1e3
            print(f"  {name} N = {size:,}: {found[name.upper()][size]:.3g} ms per step", flush=True)
    return found


def _plot(found: dict[str, Any], path: Path) -> None:
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(6.4, 4.2)
    axis = axes[0, 0]
    for colour, name in zip(COLOURS, (name for name in found if name != "LSTM")):
        sizes = sorted(found[name])
        axis.loglog(sizes, [found[name][size] for size in sizes], "o-", color=colour)
        axis.annotate(name, (sizes[-1], found[name][sizes[-1]]), (6, 0), textcoords="offset points", color=colour)
    axis.axhline(found["LSTM"]["all"], color="grey", linestyle=":")
    axis.annotate("nn.LSTM", (64, found["LSTM"]["all"]), (0, -12), textcoords="offset points", color="grey")
    axis.set_xlabel("words in memory, N")
    axis.set_ylabel("ms per step, forward and backward, B = 8")
    save(figure, path)
