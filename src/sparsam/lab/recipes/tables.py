"""Markdown tables, and means over seeds for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any

__all__ = ["spread", "table"]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join("-" if cell is None else str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def spread(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Mean ± standard deviation over seeds; of one seed its value."""
    if not values:
        return "-"
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}{unit}"
