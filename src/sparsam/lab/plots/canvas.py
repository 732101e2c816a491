"""Matplotlib without a display, and one look for all pictures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from sparsam.lab.training.files import write_here

# Colour-blind safe (Okabe and Ito), one per line in a comparison.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
READ_COLOUR, WRITE_COLOUR = "#0072B2", "#D55E00"


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes (a 2-D array), drawn by Agg and never by a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9)
    return figure, axes


def save(figure: Any, path: str | Path, notes: dict[str, str] | None = None) -> Path:
    """Write `figure` as `path`; `notes` become text fields of a PNG."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix(".") or "png", dpi=130, metadata=notes)
    write_here(path, drawn.getvalue())
    return path
