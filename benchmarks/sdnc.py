"""`sparsam bench sdnc`: what the links cost on top of SAM, and SDNC against DNC over N (the figures of section D)."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import benchmark
from benchmarks.correct import require_equal
from benchmarks.report import Line, Report
from benchmarks.resident import graph_bytes, kept_bytes, resident_bytes
from benchmarks.setting import BATCH, SIZES, STEPS, model_of, training_step
from benchmarks.setting import PROTOCOL as PROTOCOL
from benchmarks.timing import once, take_turns

MILLION = 1_000_000
AGAINST_DNC = 2_048  # the largest N at which the paper could run the DNC
SHORT = 10  # steps of the sequences in that comparison
DENSE_SIZES = (64, 128, 256, 512, 1_024, AGAINST_DNC)
SPARSE_SIZES = (*DENSE_SIZES, 16_384, 131_072, MILLION)
HELD = 256  # states held at once, to count their pages
MIB = 1024**2


@benchmark("What sparse links cost, and SDNC compared with DNC by size of the memory (supplement).")
def run(out: Path, quick: bool = False) -> Report:
    """Check, measure, print, and write sdnc.json and sdnc.png."""
    report = Report("sdnc")
    error = max(require_equal("sdnc"), require_equal("sdnc", link_gradients=True))
    print(f"native equals reference to {error:.0e}; {torch.get_num_threads()} threads")
    _beside_sam(report, 4.0 if quick else 20.0)
    _against_dnc(report)
    report.raw["curves"] = curves(DENSE_SIZES[:4] if quick else DENSE_SIZES)
    _plot(report.raw["curves"], out / "sdnc.png")
    print(report.table())
    print(report.write(out))
    return report


def _beside_sam(report: Report, seconds: float) -> None:
    training = take_turns(
        {
            "SAM 1,000,000": training_step(model_of("sam", MILLION)),
            "SDNC 1,000,000": training_step(model_of("sdnc", MILLION)),
            "SDNC 1,000": training_step(model_of("sdnc", 1_000)),
        },
        seconds,
    )
    step = {name: timing.median / STEPS for name, timing in training.items()}
    report.raw["us per training step"] = {name: spent * 1e6 for name, spent in step.items()}
    report.add(
        Line(
            "SDNC step over SAM step, N = 1,000,000 blank, K_L = 8",
            step["SDNC 1,000,000"] / step["SAM 1,000,000"],
            bound=1.5,
        )
    )
    report.add(
        Line("SDNC step at N = 1,000,000 over N = 1,000", step["SDNC 1,000,000"] / step["SDNC 1,000"], bound=1.1)
    )
    forward = take_turns({name: _forward(model_of(name, MILLION)) for name in ("sam", "sdnc")}, seconds / 2)
    spent = {name: timing.median / STEPS * 1e6 for name, timing in forward.items()}
    report.raw["us per forward step, B = 1"] = spent
    links = spent["sdnc"] - spent["sam"]
    report.add(Line("links alone, one element, one step, forward (SDNC less SAM)", links, "us", paper="100 us"))


def _against_dnc(report: Report) -> None:
    label = f"N = {AGAINST_DNC:,}, T = {SHORT}"
    figure = f"DNC step over SDNC step, {label}, B = {BATCH}"
    spent = seconds_of_both()
    report.raw["us per training step, T = 10"] = {name: seconds * 1e6 for name, seconds in spent.items()}
    report.add(Line(figure, spent["dnc"] / spent["sdnc"], bound=2_000, at_most=False, paper="440"))
    spent = with_huge_pages()
    report.raw["the same with huge pages"] = {name: seconds * 1e6 for name, seconds in spent.items()}
    report.add(Line("the same with huge pages (THP_MEM_ALLOC_ENABLE=1)", spent["dnc"] / spent["sdnc"]))
    held = {"DNC": dnc_bytes(AGAINST_DNC), "SDNC": sdnc_bytes(AGAINST_DNC)}
    report.raw["bytes, T = 10, B = 1"] = held
    figure = f"DNC bytes over SDNC bytes, {label}, B = 1, start state included"
    report.add(Line(figure, held["DNC"] / held["SDNC"], bound=1_000, at_most=False, paper="240", timed=False))


def seconds_of_both() -> dict[str, float]:
    """Seconds per step of DNC and SDNC at the largest N of the comparison, the better of three turns of each.

    A turn of the DNC is one call of several seconds, too few for a median on a machine that does other things as well.
    """
    turns = [(dnc_seconds(AGAINST_DNC, 1), sdnc_seconds(AGAINST_DNC)) for _ in range(3)]
    dense, sparse = zip(*turns)
    return {"dnc": min(dense), "sdnc": min(sparse)}


def with_huge_pages() -> dict[str, float]:
    """`seconds_of_both` in a process whose large buffers lie on huge pages, where the DNC is at its best.

    Torch reads the setting once, so it takes a process of its own. docs/notebook/baselines.md tells why it matters.
    """
    threads = torch.get_num_threads()
    code = "import json, torch; from benchmarks import sdnc; "
    code += f"torch.set_num_threads({threads}); print(json.dumps(sdnc.seconds_of_both()))"
    environment = {**os.environ, "THP_MEM_ALLOC_ENABLE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _forward(model: Any) -> Callable[[], object]:
    """One sequence of one element, everything kept that a backward pass would need."""
    x = torch.randn(STEPS, 1, SIZES["input_size"])
    return lambda: model(x)


def dnc_seconds(size: int, repeats: int = 3) -> float:
    """Seconds per training step of the DNC at batch 8."""
    call = training_step(model_of("dnc", size), SHORT)
    gc.collect()
    call()
    return once(call, repeats).median / SHORT


def sdnc_seconds(size: int) -> float:
    """The same of the SDNC."""
    return take_turns({"sdnc": training_step(model_of("sdnc", size), SHORT)}, 1.0)["sdnc"].median / SHORT


def dnc_bytes(size: int) -> int:
    """Bytes between forward and backward pass; autograd keeps the memory and links of the start as well."""
    model, x = model_of("dnc", size), torch.randn(SHORT, 1, SIZES["input_size"])
    return graph_bytes(lambda: model(x))


def sdnc_bytes(size: int) -> int:
    """The same of the SDNC: tape and journals, and the pages of a memory that went through the sequence."""
    model, x = model_of("sdnc", size), torch.randn(SHORT, 1, SIZES["input_size"])
    kept = kept_bytes(model(x)[0])
    with torch.no_grad():
        model(x)
        before = resident_bytes()
        held = [model(x)[1] for _ in range(HELD)]
        pages = (resident_bytes() - before) // len(held)
    return kept + pages


def curves(dense_sizes: tuple[int, ...]) -> dict[str, dict[str, dict[int, float]]]:
    """Milliseconds per step and MiB over N, as in the paper's figure."""
    milliseconds: dict[str, dict[int, float]] = {"DNC": {}, "SDNC": {}}
    mebibytes: dict[str, dict[int, float]] = {"DNC": {}, "SDNC": {}}
    for size in SPARSE_SIZES:
        milliseconds["SDNC"][size] = sdnc_seconds(size) * 1e3
        mebibytes["SDNC"][size] = sdnc_bytes(size) / MIB
    for size in dense_sizes:
        milliseconds["DNC"][size] = dnc_seconds(size) * 1e3
        mebibytes["DNC"][size] = dnc_bytes(size) / MIB
        print(f"  DNC N = {size:,}: {milliseconds['DNC'][size]:.3g} ms per step", flush=True)
    return {"ms per step": milliseconds, "MiB": mebibytes}


def _plot(found: dict[str, dict[str, dict[int, float]]], path: Path) -> None:
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(9.6, 4.0, columns=2)
    labels = {
        "ms per step": f"ms per step, forward and backward, B = {BATCH}, T = {SHORT}",
        "MiB": f"MiB to train, start state included, B = 1, T = {SHORT}",
    }
    for axis, (key, label) in zip(axes[0], labels.items()):
        for colour, (name, values) in zip(COLOURS, found[key].items()):
            sizes = sorted(values)
            axis.loglog(sizes, [values[size] for size in sizes], "o-", color=colour)
            axis.annotate(name, (sizes[-1], values[sizes[-1]]), (0, 8), textcoords="offset points", color=colour)
        axis.set_xlabel("words in memory, N")
        axis.set_ylabel(label)
    save(figure, path)
