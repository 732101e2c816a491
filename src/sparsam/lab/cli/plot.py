"""`sparsam plot`: learning curves, memory accesses, and a report, from run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sparsam.lab.cli.help import argument, option
from sparsam.lab.cli.model_options import OwnTaskOption
from sparsam.lab.cli.runs import complete, find_run


def plot(
    runs: Annotated[
        list[str] | None,
        argument(
            "Runs (folders or the beginnings of their names). Runs that differ only in seed share a line.",
            "the last run",
            autocompletion=complete,
        ),
    ] = None,
    out: Annotated[Path | None, option("Folder for the pictures.", "the first run's folder")] = None,
    measure: Annotated[
        str | None, option("What to draw: the name of an error, loss or level.", "the task's first error")
    ] = None,
    against: Annotated[
        str, option("Horizontal axis: sequences or seconds.", names=("sequences", "seconds"))
    ] = "sequences",
    size: Annotated[int | None, option("Size of the sequence in the memory picture.", "as trained", min=1)] = None,
    task: OwnTaskOption = None,
) -> None:
    """Draw learning curves and memory accesses (PNG), and write a report (HTML).

    The memory picture needs a single run.

    Examples:

        sparsam plot copy-sam
        sparsam plot runs/copy-sam-0 runs/copy-lstm-0 --against seconds
    """
    from sparsam.lab.plots.curves import plot_curves
    from sparsam.lab.plots.raster import plot_run_raster
    from sparsam.lab.plots.report import write_report
    from sparsam.lab.training import user_classes
    from sparsam.lab.training.folder import RunFolder

    if task is not None:
        user_classes.use_task(task)
    found = [find_run(name) for name in runs] if runs else [find_run(None)]
    for run in found:
        if not RunFolder(run).exists():
            raise FileNotFoundError(f"{run} holds no run (no config.json)")
    folder = out or found[0]
    print(plot_curves(found, folder / "curves.png", measure, against))
    if len(found) == 1 and RunFolder(found[0]).config().model.memory_size:
        print(plot_run_raster(found[0], folder / "memory.png", size))
    print(write_report(found, folder / "report.html"))
