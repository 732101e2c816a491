"""Learning curves of one or more runs, with the spread over seeds.

Runs that differ in nothing but their seed form one line: the median over seeds, inside a band from the lowest to the
highest. A seed that has ended (solved, or out of time) counts on with its last value, marked by a dot, so the line goes
as far as the longest run; one that was cut off counts as far as it went. Lines are named at their right end, so nobody
has to hunt through a legend.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsam.lab.plots.canvas import COLOURS, new_figure, save
from sparsam.lab.training.config import RunConfig, by_path
from sparsam.lab.training.folder import RunFolder, is_name, is_number

AXES = {"sequences": "sequences seen", "seconds": "seconds of training"}
# What a run writes and when, which does not change what it learns and so does not name it.
HABITS = {"log_every", "checkpoint_every", "checkpoint_seconds", "tensorboard", "loggers", "wait_seconds"}


@dataclass(frozen=True)
class Curve:
    """One line: for each seed, x (sequences seen, or seconds) and y (the measured number).

    `steps`: a value holds until the next one, as a level does, where others are joined by straight lines.
    """

    label: str
    seeds: list[tuple[np.ndarray, np.ndarray]]
    steps: bool = False
    cut_off: tuple[bool, ...] = ()  # of each seed, whether it was; none if not given

    def spread(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, median, lowest and highest, from where all seeds have a value to where the last one ends."""
        first = max(x[0] for x, _ in self.seeds)
        grid = np.unique(np.concatenate([x for x, _ in self.seeds]))
        grid = grid[grid >= first]
        values = np.stack([self._at(grid, x, y) for x, y in self.seeds])
        for row, (x, _), cut_off in zip(values, self.seeds, self.cut_off):
            if cut_off:
                row[grid > x[-1]] = np.nan
        told = ~np.isnan(values).all(0)
        grid, values = grid[told], values[:, told]
        return grid, np.nanmedian(values, 0), np.nanmin(values, 0), np.nanmax(values, 0)

    def _at(self, grid: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One seed's values on the grid; beyond its end, its last one."""
        if self.steps:
            return y[np.searchsorted(x, grid, side="right") - 1]
        return np.interp(grid, x, y)

    def ends(self) -> tuple[list[float], list[float]]:
        """Where each seed ended."""
        return [float(x[-1]) for x, _ in self.seeds], [float(y[-1]) for _, y in self.seeds]


def collect(runs: Sequence[RunFolder], measure: str, kind: str = "eval", against: str = "sequences") -> list[Curve]:
    """Curves of `measure` against sequences seen (or seconds), runs of different seeds together."""
    if against not in AXES:
        raise ValueError(f"against: expected one of {', '.join(AXES)}, got {against!r}")
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    cut_off: dict[str, list[bool]] = {}
    labels = run_labels([run.config() for run in runs])
    for run, label in zip(runs, labels, strict=True):
        points = run.points(kind, measure, against)
        if kind == "level":
            points = _levels(run, points, against)
        if points:
            x, y = zip(*points, strict=True)
            groups.setdefault(label, []).append((np.array(x, float), np.array(y, float)))
            cut_off.setdefault(label, []).append(run.result() is None)
    return [Curve(label, seeds, kind == "level", tuple(cut_off[label])) for label, seeds in groups.items()]


def draw(
    curves: Sequence[Curve],
    measure: str,
    title: str,
    axis: Any = None,
    log: bool | None = None,
    against: str = "sequences",
) -> Any:
    """Draw onto `axis`, or onto a new figure; returns the figure."""
    if axis is None:
        axis = new_figure(7.5, 4.2)[1][0, 0]
    ends = []
    for colour, curve in zip(itertools.cycle(COLOURS), curves, strict=False):
        x, middle, low, high = curve.spread()
        style, where = ("steps-post", "post") if curve.steps else ("default", None)
        axis.plot(x, middle, color=colour, linewidth=1.8, drawstyle=style)
        if len(curve.seeds) > 1:
            axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, step=where)
            axis.plot(*curve.ends(), ".", color=colour, markersize=5)
        ends.append((middle[-1], curve.label, colour, x[-1]))
    use_log = measure == "level" if log is None else log
    if use_log:
        axis.set_yscale("log", base=2 if measure == "level" else 10)
    else:
        axis.set_ylim(bottom=0)
    _name_lines(axis, ends, use_log)
    axis.set_xlabel(AXES[against])
    axis.xaxis.set_major_formatter(_thousands)
    axis.set_ylabel(measure.replace("_", " "))
    axis.set_title(title, loc="left", fontsize=11)
    axis.grid(axis="y", alpha=0.25)
    return axis.figure


def plot_curves(
    paths: Sequence[str | Path], out: str | Path, measure: str | None = None, against: str = "sequences"
) -> Path:
    """Learning curves of the runs in `paths` as one picture."""
    runs = [RunFolder(path) for path in paths]
    measure = measure or headline(runs)
    curves = collect(runs, measure, "level" if measure == "level" else "eval", against)
    if not curves:  # a run that has not come to its first evaluation has the numbers of its minibatches
        curves = collect(runs, measure, "train", against)
    if not curves:
        raise ValueError(f"none of the runs has logged {measure!r} yet")
    tasks = sorted({name for name in (run.config().task.name for run in runs) if is_name(name)})
    counts = sorted({len(curve.seeds) for curve in curves})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    spread = f" (median and range of {seeds} seeds)" if counts[-1] > 1 else ""
    title = f"{', '.join(tasks)}: {measure.replace('_', ' ')}{spread}"
    return save(draw(curves, measure, title, against=against), out)


def headline(runs: Sequence[RunFolder]) -> str:
    """The first error that the runs report, or the loss."""
    return next((key for run in runs for key in run.measures()), "loss")


def run_labels(configs: Sequence[RunConfig]) -> list[str]:
    """The shortest names that tell the runs apart by what differs between them, seeds aside."""
    flat = [by_path(config.to_dict()) for config in configs]
    skip = {"seed", "name", "steps", "seconds", "model.name"} | HABITS
    keys = sorted({key for entry in flat for key in entry if key not in skip})
    differing = [key for key in keys if len({repr(entry.get(key)) for entry in flat}) > 1]
    several_tasks = "task.name" in differing
    labels = []
    for entry in flat:
        same_model = [other for other in flat if other["model.name"] == entry["model.name"]]
        parts = [entry["model.name"].upper()]
        if several_tasks:
            parts.append(entry["task.name"])
        for key in differing:
            if key == "task.name" or entry.get(key) is None or len({repr(o.get(key)) for o in same_model}) == 1:
                continue
            if isinstance(entry[key], list) or not is_name(str(entry[key])):
                continue  # too long for a label
            parts.append(f"{key.rpartition('.')[2].replace('_', ' ')} {entry.get(key)}")
        labels.append(" ".join(parts))
    return labels


def _levels(run: RunFolder, points: list[tuple[float, float]], against: str) -> list[tuple[float, float]]:
    """The levels from the first to the end of the run."""
    curriculum = run.config().curriculum
    events = [event[against] for event in run.events() if is_number(event.get(against))]
    if curriculum is None or not events:
        return points
    points = [(0.0, float(curriculum.start)), *points]
    return [*points, (max(events), points[-1][1])]


def _name_lines(axis: Any, ends: list[tuple[float, str, str, float]], log: bool) -> None:
    """Write each label beside the end of its line, pushed apart where they would overlap."""
    low, high = axis.get_ylim()
    if log:
        low, high = np.log(max(low, 1e-9)), np.log(high)

    def height(value: float) -> float:
        return ((np.log(max(value, 1e-9)) if log else value) - low) / (high - low)

    last = -1.0
    for value, label, colour, _ in sorted(ends):
        place = max(height(value), last + 0.06)
        axis.annotate(
            label,
            (1.01, place),
            xycoords="axes fraction",
            color=colour,
            fontsize=9,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )
        last = place


def _thousands(value: float, _: int) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
