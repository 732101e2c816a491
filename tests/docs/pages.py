"""README and the results pages as tables of cells, and how a printed number is compared with a value."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README, RESULTS, REAL = (ROOT / name for name in ("README.md", "docs/results.md", "docs/results_real_data.md"))
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")


def load(name: str) -> Any:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a page, each a list of rows of cells; the first row is the head."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
            inside = True
        if not re.fullmatch(r"[|\-: ]+", line):
            found[-1].append([cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")])
    return found


def table(path: Path, *head: str) -> list[list[str]]:
    """The rows of the one table whose head begins with these cells."""
    matching = [t for t in tables(path.read_text(encoding="utf-8")) if t[0][: len(head)] == list(head)]
    assert len(matching) == 1, f"{path.name}: {len(matching)} tables begin with {head}"
    return matching[0][1:]


def row(path: Path, *begins: str) -> list[str]:
    """The one row of a page's tables whose first cell begins like this."""
    rows = [r for t in tables(path.read_text(encoding="utf-8")) for r in t if r[0].startswith(begins)]
    assert len(rows) == 1, f"{path.name}: {len(rows)} rows begin with {begins}"
    return rows[0]


def numbers(cell: str) -> list[Decimal]:
    return [Decimal(text.replace(",", "")) for text in NUMBER.findall(cell)]


def agrees(printed: Decimal, value: float) -> bool:
    """Whether `printed` is `value` rounded to the digits that are printed; halves may be rounded either way."""
    unit = Decimal(1).scaleb(int(printed.as_tuple().exponent))
    return abs(Decimal(value) - printed) <= unit / 2 + Decimal("1e-9")


def assert_cell(cell: str, values: Iterable[float], where: str) -> None:
    wanted = list(values)
    found = numbers(cell)
    assert len(found) == len(wanted), f"{where}: {cell!r} should hold {wanted}"
    for printed, value in zip(found, wanted, strict=True):
        assert agrees(printed, value), f"{where}: {cell!r} says {printed}, the JSON {value}"


def mean_and_deviation(values: list[float]) -> list[float]:
    """What a cell of several seeds shows: both, the mean alone of one, nothing of none."""
    return [statistics.mean(values), *([statistics.stdev(values)] if len(values) > 1 else [])] if values else []


def plain(path: Path) -> str:
    """A page as one line."""
    return " ".join(path.read_text(encoding="utf-8").split()) + " "


def percent(result: dict[str, Any]) -> float:
    return 100 * result["test"]["mean"]
