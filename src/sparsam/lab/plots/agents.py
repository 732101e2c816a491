"""Learning curves of agents: a panel for each environment, a line for each core with the range over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsam.lab.plots.canvas import COLOURS, new_figure

Points = Sequence[tuple[float, float]]


def draw(curves: Mapping[str, Mapping[str, Sequence[Points]]], columns: int = 4) -> Any:
    """`curves`: environment, core, seeds; each a row of (environment steps, mean return)."""
    names = list(dict.fromkeys(core for cores in curves.values() for core in cores))
    columns = min(columns, len(curves))
    rows = -(-len(curves) // columns)
    figure, axes = new_figure(3.2 * columns, 2.6 * rows, rows, columns)
    for axis, (environment, cores) in zip(axes.flat, curves.items(), strict=False):
        for core, seeds in cores.items():
            colour = COLOURS[names.index(core) % len(COLOURS)]
            steps = [x for x, _ in max(seeds, key=len)]
            values = np.full((len(seeds), len(steps)), np.nan)
            for line, points in zip(values, seeds, strict=True):
                line[: len(points)] = [y for _, y in points]
            axis.plot(steps, np.nanmean(values, 0), color=colour, linewidth=1.5, label=core)
            if len(seeds) > 1:
                axis.fill_between(
                    steps, np.nanmin(values, 0), np.nanmax(values, 0), color=colour, alpha=0.15, linewidth=0
                )
        axis.set_title(environment, loc="left", fontsize=9)
        axis.grid(axis="y", alpha=0.25)
        axis.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1e6:g}M")
    for axis in list(axes.flat)[len(curves) :]:
        axis.set_visible(False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("mean return", fontsize=9)
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles), fontsize=9, frameon=False
    )
    return figure
