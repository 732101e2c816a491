"""A benchmark's lines: what was to be reached and what was."""

from __future__ import annotations

import importlib
import platform
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import NAMES
from benchmarks.timing import QUIET, SPREAD, Timing, Watch
from sparsam.lab.recipes import record
from sparsam.lab.training.folder import commit

UNTIMED = ("", "KiB", "MiB", "bytes", "bits", "words")


@dataclass(frozen=True)
class Line:
    """One figure. `bound` with `at_most` says when it is met; no bound means that it is only reported.

    A reading that a busy machine spoiled (`unsure` says how) is neither met nor missed.
    """

    figure: str
    reached: float
    unit: str = "x"
    bound: float | None = None
    at_most: bool = True
    paper: str = ""
    times: str = ""  # the two times behind a ratio
    unsure: str = ""
    timed: bool = True  # whether a busy machine spoils it; of a unit that is no time it is not asked

    @staticmethod
    def ratio(figure: str, over: Timing, under: Timing, per: float = 1.0, **rest: Any) -> Line:
        """`over` divided by `under`, with both times in us, of `per` steps each."""
        spread = max(over.spread, under.spread)
        unsure = f"repeats spread by {100 * spread:.0f}%" if spread > SPREAD else ""
        times = f"{over.median / per * 1e6:,.4g} / {under.median / per * 1e6:,.4g} us"
        return Line(figure, over.median / under.median, times=times, unsure=unsure, **rest)

    @property
    def met(self) -> bool | None:
        if self.bound is None or self.unsure:
            return None
        return self.reached <= self.bound if self.at_most else self.reached >= self.bound

    def row(self) -> list[str]:
        target = "report" if self.bound is None else f"{'<=' if self.at_most else '>='} {self.bound:,g}"
        verdict = {True: "met", False: "MISSED", None: self.unsure and f"unsure: {self.unsure}"}[self.met]
        reached = f"{self.reached:,.4g} {self.unit}" + (f" ({self.times})" if self.times else "")
        return [self.figure, f"{target} {self.unit}".strip(), reached, verdict, self.paper]


@dataclass
class Report:
    """Lines and raw measurements of one benchmark run."""

    name: str
    lines: list[Line] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)
    watch: Watch | None = field(default_factory=Watch, repr=False)  # None: put together from earlier readings

    def add(self, line: Line) -> None:
        """Note a line, and what others used of the machine meanwhile; show it at once: benchmarks take minutes."""
        others = None if self.watch is None else self.watch.read()
        if others is not None and others > QUIET and line.timed and line.unit not in UNTIMED:
            busy = f"other processes used {others:.1f} cores"
            line = replace(line, unsure=f"{line.unsure}, {busy}" if line.unsure else busy)
        self.lines.append(line)
        print("  " + "  |  ".join(part for part in line.row() if part), flush=True)

    def to_dict(self) -> dict[str, Any]:
        """Lines, raw measurements, and what they were measured with, as a record (`sparsam.lab.recipes.record`)."""
        machine = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "processor": processor(),
        }
        lines = [{**asdict(line), "met": line.met} for line in self.lines]
        return as_record(self.name, {"machine": machine, "lines": lines, "raw": self.raw})

    def table(self) -> str:
        """All lines as a Markdown table."""
        rows = [["figure", "target", "reached", "", "the paper"], *(line.row() for line in self.lines)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(record.text(self.to_dict()), encoding="utf-8")
        return path


def as_record(name: str, found: dict[str, Any], arguments: Sequence[str] = ()) -> dict[str, Any]:
    """What benchmark `name` found as a record: its module's first lines are the claim, the others the protocol."""
    module = importlib.import_module(f"benchmarks.{name}")
    said = re.sub(r"^`[^`]+`: |^ {4}.*$", "", (module.__doc__ or "").strip(), flags=re.MULTILINE)
    claim, _, rest = (" ".join(part.split()) for part in said.partition("\n\n"))
    command = ["sparsam", "bench", name] if name in NAMES else ["python", "-m", f"benchmarks.{name}"]
    head = {
        "schema": 1,
        "claim": claim[:1].upper() + claim[1:],
        "protocol": getattr(module, "PROTOCOL", rest or claim),
        "differences": [],
        "commands": [shlex.join([*command, *arguments])],
        "commit": commit(),
    }
    return head | found


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
