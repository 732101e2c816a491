"""Numbers and tables of the results pages, all read from the records in docs/."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from textwrap import fill
from typing import Any

from sparsam.lab.recipes.tables import spread, table

__all__ = ["Records", "about", "count", "end", "mean", "median", "runs_of", "shell", "spread", "table", "wrapped"]


class Records:
    """The JSON records below a docs folder, by name: `records["results/figure3"]`."""

    def __init__(self, docs: Path) -> None:
        self.docs = docs
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = json.loads((self.docs / f"{name}.json").read_text(encoding="utf-8"))
        return self._read[name]

    def figure(self, bench: str, start: str) -> Any:
        """What a benchmark's record says on the line that begins with `start`."""
        lines = [line for line in self[f"bench/{bench}"]["lines"] if line["figure"].startswith(start)]
        if not lines:
            raise KeyError(f"bench/{bench}.json has no line that begins with {start!r}")
        return lines[0]["reached"]


def shell(commands: Iterable[str], width: int = 96) -> str:
    """A block of commands; long ones are continued over lines, each of which begins with an option."""
    lines: list[str] = []
    for command in commands:
        first, *options = re.split(r" (?=--)", command)
        lines.append(f"    {first}")
        for option in options:
            if len(lines[-1]) + len(option) < width:
                lines[-1] += f" {option}"
            else:
                lines[-1] += " \\"
                lines.append(f"        {option}")
    return "\n".join(lines)


def count(value: float) -> str:
    """A whole number as people write it."""
    return f"{round(value):,}"


def runs_of(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A record's runs `name`-0, `name`-1, ..., by seed."""
    found = [run for key, run in record["runs"].items() if key.rpartition("-")[0] == name]
    return sorted(found, key=lambda run: run["seed"])


def end(run: dict[str, Any]) -> float:
    """Wrong bits per sequence at the end of a run."""
    bits: float = run["tests"]["end"]["bits_per_sequence"] if "end" in run["tests"] else run["curve"][-1][1]
    return bits


def about(record: dict[str, Any], before: str = "") -> dict[str, str]:
    """What most pages say of a record: its commands, protocol (after the word `before`) and differences."""
    different = [wrapped(f"- {entry}", "  ") for entry in record["differences"]]
    return {
        "commands": shell(record["commands"]),
        "protocol": wrapped(before + record["protocol"]),
        "differences": "\n".join(["Differences from the paper:", "", *different]),
    }


def wrapped(text: str, indent: str = "") -> str:
    """`text` as a sentence, in lines that a terminal shows whole."""
    whole = text if text.endswith((".", ":")) else f"{text}."
    return fill(whole, 125, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
