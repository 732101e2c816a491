"""``sparsam plot``: learning curves, memory accesses, and a report, from run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; runs that differ in seed only form one line.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures. [default: the first run's]")] = None,
    measure: Annotated[str | None, typer.Option(help="What to draw: an error's name, loss or level.")] = None,
    against: Annotated[str, typer.Option(help="What it is drawn over: sequences or seconds.")] = "sequences",
    size: Annotated[int | None, typer.Option(help="Size of the episode in the memory picture.")] = None,
) -> None:
    """Draw learning curves (PNG), the memory accesses of one episode (PNG) and a self-contained report (HTML)."""
    from sparsam.plots.curves import plot_curves
    from sparsam.plots.raster import plot_run_raster
    from sparsam.plots.report import write_report
    from sparsam.training.folder import RunFolder

    for run in runs:
        if not RunFolder(run).exists():
            raise FileNotFoundError(f"{run} holds no run (no config.json)")
    folder = out or runs[0]
    print(plot_curves(runs, folder / "curves.png", measure, against))
    if len(runs) == 1 and RunFolder(runs[0]).config().model.name != "lstm":
        print(plot_run_raster(runs[0], folder / "memory.png", size))
    print(write_report(runs, folder / "report.html"))
