"""Tables and pictures of the recall tests, from results that are measured once and kept as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparsam.lab.recipes import token_cost
from sparsam.lab.training.config import ModelConfig

_FIGURES = {
    "seconds_per_token": ("running: microseconds per token", 1e6),
    "training_seconds_per_token": ("training: microseconds per token", 1e6),
    "training_bytes_per_token": ("training: KiB kept per token", 1 / 1024),
}


def once(file: Path, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `file` holds, or what `measure` finds, which is then kept there."""
    if not file.exists():
        file.write_text(json.dumps(measure(), indent=2) + "\n")
    return json.loads(file.read_text())


def costs(
    file: Path, models: dict[str, ModelConfig], device: str, lengths: Iterable[int] = token_cost.LENGTHS
) -> dict[str, Any]:
    """Cost of each model at each length, kept in `file` as each is known; a reason where one cannot be measured."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for (name, model), length in itertools.product(models.items(), lengths):
        entry = found.setdefault(name, {})
        if str(length) not in entry:
            try:
                entry[str(length)] = token_cost.measure(model, length, device=device)
            except RuntimeError as error:
                entry[str(length)] = {"reason": str(error)}
            file.write_text(json.dumps(found, indent=2) + "\n")
    return found


def accuracy_table(runs: dict[str, dict[str, Any]]) -> str:
    """One row for each run, one column for each test: accuracy in percent."""
    columns = list(dict.fromkeys(test for tests in runs.values() for test in tests))
    lines = ["| run | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, tests in runs.items():
        lines.append(f"| {name} | " + " | ".join(_percent(tests.get(test)) for test in columns) + " |")
    return "\n".join(lines)


def long_table(runs: dict[str, dict[str, Any]]) -> str:
    """One row for each run and long test: accuracy, time, and where a test ran out of time."""
    lines = ["| run | test | accuracy (%) | seconds | microseconds per token | rows in memory | |", "|---" * 7 + "|"]
    for name, tests in runs.items():
        for test, found in tests.items():
            note = f"out of time at token {found['stopped_at']:,}" if "stopped_at" in found else ""
            lines.append(
                f"| {name} | {test} | {_percent(found)} | {found['seconds']:.1f} | "
                f"{1e6 * found['seconds_per_token']:.1f} | {found['memory_size']:,} | {note} |"
            )
    return "\n".join(lines)


def cost_table(found: dict[str, Any]) -> str:
    """One row for each model and figure, one column for each length."""
    lengths = sorted({int(length) for entry in found.values() for length in entry})
    lines = ["| model | figure | " + " | ".join(f"{length:,} tokens" for length in lengths) + " |"]
    lines.append("|---" * (len(lengths) + 2) + "|")
    for name, entry in found.items():
        for key, (title, unit) in _FIGURES.items():
            values = [entry.get(str(length), {}).get(key) for length in lengths]
            cells = ["-" if value is None else f"{value * unit:.3g}" for value in values]
            lines.append(f"| {name} | {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_accuracy(
    slices: dict[str, dict[str, Any]], long: dict[str, dict[str, Any]], path: Path, title: str, axis_name: str = "pairs"
) -> Path:
    """Accuracy over the number that a test's name begins with; a line for each model, a dot for each seed."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(7.5, 4.2)
    axis = axes[0, 0]
    lines: dict[str, dict[int, list[float]]] = {}
    for name, tests in slices.items():
        line = lines.setdefault(name.rpartition("-")[0], {})
        for test, found in {**tests, **long.get(name, {})}.items():
            if found.get("error_rate") is not None and "stopped_at" not in found and not test.endswith("auto"):
                line.setdefault(_number(test), []).append(100 * (1 - found["error_rate"]))
    for colour, (label, points) in zip(itertools.cycle(COLOURS), sorted(lines.items()), strict=False):
        sizes = sorted(points)
        middle = [sorted(points[size])[len(points[size]) // 2] for size in sizes]
        axis.plot(sizes, middle, "-", color=colour, linewidth=1.8, label=label)
        dots = [(size, value) for size in sizes for value in points[size]]
        axis.plot(*zip(*dots, strict=True), ".", color=colour, markersize=6)
    axis.set_xscale("log", base=2)
    axis.set_ylim(-2, 102)
    axis.set_xlabel(axis_name)
    axis.set_ylabel("accuracy (%)")
    axis.set_title(title, loc="left", fontsize=11)
    axis.grid(axis="y", alpha=0.25)
    axis.legend(frameon=False, fontsize=9)
    return save(figure, path)


def draw_costs(found: dict[str, Any], path: Path) -> Path:
    """The three figures over length, side by side."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    figure, axes = new_figure(13, 3.8, 1, len(_FIGURES))
    for axis, (key, (title, unit)) in zip(axes[0], _FIGURES.items(), strict=True):
        for colour, (name, entry) in zip(itertools.cycle(COLOURS), found.items(), strict=False):
            points = sorted(
                (int(length), value[key] * unit) for length, value in entry.items() if value.get(key, 0) > 0
            )
            if points:
                axis.plot(*zip(*points, strict=True), "o-", color=colour, linewidth=1.6, markersize=4, label=name)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens in the sequence")
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(axis="y", alpha=0.25)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return save(figure, path)


def _percent(found: dict[str, Any] | None) -> str:
    error = None if found is None else found.get("error_rate")
    return "-" if error is None else f"{100 * (1 - error):.2f}"


def _number(test: str) -> int:
    return int(test.split()[0].replace(",", ""))
