"""Pictures that are drawn from records. Each holds a digest of what it shows, by which an outdated one is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIGEST = "sparsam-record"  # a text field of the PNG


@dataclass(frozen=True)
class Picture:
    """`data` is everything that is shown, as plain values; `draw` makes a figure of it."""

    data: Any
    draw: Callable[[Any], Any]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.data).encode()).hexdigest()

    def is_in(self, file: Path) -> bool:
        """Whether `file` shows this data."""
        return file.exists() and f"{DIGEST}\0{self.digest}".encode() in file.read_bytes()

    def save(self, file: Path) -> None:
        from sparsam.lab.plots.canvas import save

        save(self.draw(self.data), file, {DIGEST: self.digest})


def lines(title: str, measure: str, against: str, curves: dict[str, list[list[list[float]]]]) -> Picture:
    """Median and range of the seeds of each line; `curves`: label, seeds, points."""

    def draw(data: dict[str, Any]) -> Any:
        import numpy as np

        from sparsam.lab.plots.curves import Curve
        from sparsam.lab.plots.curves import draw as drawn

        made = []
        for label, seeds in data["curves"].items():
            columns = [tuple(np.array(points, float).T) for points in seeds]
            made.append(Curve(label, columns, steps=measure == "level"))
        return drawn(made, measure, title, against=against)

    return Picture({"title": title, "measure": measure, "against": against, "curves": curves}, draw)


def seeds_of(runs: dict[str, list[Any]]) -> str:
    """How many seeds the lines of a picture have."""
    counts = sorted({len(seeds) for seeds in runs.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
