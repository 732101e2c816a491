"""`sparsam bench ann`: what the approximate indexes find among words that trained models wrote, and how long it takes.

The benchmark has parts. Each writes what it found, as it goes, to `<out>/ann_parts`; one that is there whole is not run
again, so that a run which was stopped goes on, and parts can be run beside each other:

    sparsam bench ann
    python -m benchmarks.ann runs/bench --parts "words: 50,000 pairs" "bits: 4,096 pairs"
    python -m benchmarks.ann runs/bench --report        # of the parts that are there

Speed is quoted only where all K of every head are found (recall@K) in at least 0.95 of the cases (`LEARNS`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks import ann_bits, ann_curves, ann_million, ann_steps, benchmark
from benchmarks.ann_report import report_of
from benchmarks.ann_words import SETS, words_of
from benchmarks.correct import require_equal
from benchmarks.recall import replayed
from benchmarks.report import Report, processor
from benchmarks.timing import threads
from sparsam.lab.data.locate import DataError

NAMES = ("linear", "auto", "scan", "lsh", "kdtree")
Part = Callable[[Path, bool], Iterator[dict[str, Any]]]


def correct(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    """The engine, and every index, before anything is timed."""
    yield {"native against reference": require_equal("sam")}
    yield {name: require_replayed(name) for name in ("scan", "lsh", "kdtree")}


def curves(name: str) -> Part:
    def part(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
        data = words_of(name, out / "ann_words", quick)
        found: list[dict[str, Any]] = []
        for point in ann_curves.points(data):
            found.append(point)
            yield {"set": name, "points": found}

    return part


def short_bits(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    pairs = 400 if quick else 4_096
    yield {"pairs": pairs, "cues": 64, "bits wrong": ann_bits.whole(pairs, 64, (1,) if quick else (1, 2, 3), NAMES)}


def long_bits(pairs: int, index: str, seed: int) -> Part:
    """A sequence with one index, asked with the others too where the paper's are too slow to write it."""

    def part(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        others = NAMES if index == "auto" else ()
        for finding in ann_bits.sequence(pairs // 50 if quick else pairs, index, seed, 32 if quick else 256, others):
            found |= finding
            yield found

    return part


def babi(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    yield {"SDNC": ann_bits.babi(NAMES, 8 if quick else 200)}


def loaded(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in ann_steps.over_loaded((2_000, 8_000, 16_000) if quick else ann_steps.SIZES, 0.5 if quick else 2.0):
        rows.append(row)
        yield {"rows": rows}


def filling(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in ann_steps.over_written((1_000, 8_000 if quick else 64_000)):
        rows.append(row)
        yield {"rows": rows}


def long(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    steps = 5_000 if quick else 100_000
    yield {"steps": steps, "us per step, each tenth": ann_steps.long_sequence(steps)}


def million(out: Path, quick: bool) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    count = 70_000 if quick else 1_000_000
    for finding in ann_million.measure(count, [torch.get_num_threads()], 1.0 if quick else 10.0, dense=True):
        found |= finding
        yield found


PARTS: dict[str, Part] = {
    "correct": correct,
    **{f"words: {name}": curves(name) for name in SETS},
    "bits: 4,096 pairs": short_bits,
    **{
        f"bits: {pairs:,} pairs, {index}, seed {seed}": long_bits(pairs, index, seed)
        for pairs, seeds in ((50_000, (1,)), (200_000, (1, 2)))
        for seed in seeds
        for index in ("linear", "auto")
    },
    "bits: bAbI": babi,
    "steps: pre-loaded": loaded,
    "steps: written": filling,
    "steps: long": long,
    "million": million,
}
# Measured with one thread whatever torch has; the others with torch's number.
ONE_THREAD = tuple(name for name in PARTS if name not in ("million", "correct", "steps: pre-loaded"))


def require_replayed(index: str) -> float:
    """Outputs and gradients with an index against the reference that is handed the same selections."""
    model = sparsam.SAM(4, 3, hidden_size=20, memory_size=60, word_size=8, index=index, engine="native").double()
    x = torch.randn(30, 3, 4, dtype=torch.float64)
    worst = 0.0
    results = []
    for each in (model, replayed(model, x)):
        y, _ = each(x)
        loss = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()
        results.append([y.detach(), *torch.autograd.grad(loss, list(each.parameters()))])
    for ours, theirs in zip(*results):
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)))
    if not worst <= 1e-9:
        raise RuntimeError(f"index {index!r} differs from the reference by {worst:.1e}; not timing it")
    return worst


def file_of(out: Path, name: str, quick: bool) -> Path:
    plain = name.replace(": ", "-").replace(", ", "-").replace(",", "").replace(" ", "_")
    return out / ("ann_parts_quick" if quick else "ann_parts") / f"{plain}.json"


def run_part(name: str, out: Path, quick: bool) -> None:
    """Run one part unless it is there whole; what it has found so far is on disk at any time."""
    path = file_of(out, name, quick)
    if path.exists() and json.loads(path.read_text())["whole"]:
        print(f"  {name}: done before", flush=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"processor": processor(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    begin = time.perf_counter()
    found: dict[str, Any] = {}

    def keep(whole: bool, **more: Any) -> None:
        spent = time.perf_counter() - begin
        row = {"part": name, "whole": whole, "seconds": spent, "machine": machine, "found": found, **more}
        path.write_text(json.dumps(row, indent=1) + "\n")

    try:
        for found in PARTS[name](out, quick):
            keep(False)
            print(f"  {name}, {time.perf_counter() - begin:.0f} s: {_last(found)}", flush=True)
    except (DataError, FileNotFoundError) as error:  # without bAbI everything else is measured
        found = {}
        return keep(True, left_out=str(error))
    keep(True)


def _last(found: dict[str, Any]) -> str:
    newest = found.get("points") or found.get("rows")
    return json.dumps(newest[-1] if newest else found)[:400]


def parts_in(out: Path, quick: bool) -> dict[str, Any]:
    """What was found, by part; of parts that were stopped, so far."""
    files = {name: file_of(out, name, quick) for name in PARTS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


@benchmark("Time and recall of SAM with approximate search in a full memory (figure 1a, 'SAM ANN').")
def run(out: Path, quick: bool = False, names: list[str] | None = None) -> Report:
    """Run all parts, or some; then write the report of all that are there, as ann.json and ann.png.

    Args:
        names: only this part, such as "million"; may be repeated.
    """
    for name in names if names is not None else PARTS:
        with threads(1 if name in ONE_THREAD else torch.get_num_threads()):
            run_part(name, out, quick)
    report = report_of(parts_in(out, quick), out, quick)
    print(report.table())
    print(report.write(out))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), metavar="PART", help="; ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--report", action="store_true", help="only put together what is there")
    given = parser.parse_args()
    if given.parts and not given.report:  # beside others: the report comes last, by itself
        for name in given.parts:
            with threads(1 if name in ONE_THREAD else torch.get_num_threads()):
                run_part(name, given.out, given.quick)
        return
    run(given.out, given.quick, [] if given.report else None)


if __name__ == "__main__":
    main()
