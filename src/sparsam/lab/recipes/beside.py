"""All recall tests in one file and one picture: what each model gets right as it is asked for more.

python -m sparsam.lab.recipes.beside runs docs/results                         # beside.json and beside.png of all runs
python -m sparsam.lab.recipes.beside docs/results/beside.json docs/results    # the picture again from the numbers

Where costs were measured on a CPU (`cost-cpu*.json` beside the runs) they become a second picture, beside_cost.png.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from sparsam.lab.recipes import token_report

FILES = ("slices.json", "lengths.json")
PANELS: tuple[
    tuple[str, str | tuple[str, ...], str, str], ...
] = (  # folder, start of a run's name, unit of a test's size, title
    ("mqar", "zoology", "pairs", "MQAR, 8,192 tokens (trained: 64 pairs)"),
    ("mqar", ("large", "crowded"), "pairs", "MQAR, 262,144 tokens (trained: 256 pairs)"),
    ("induction", "", "tokens", "Induction (trained: 256 tokens)"),
    ("selective-copy", "", "tokens", "Selective copying (trained: 256 tokens)"),
    ("word-problem", "both", "elements", "S5, in one model with MQAR (trained: 32)"),
)


def collect(root: str | Path) -> dict[str, Any]:
    """How long each run under `root` was trained and what its tests found; costs where they were measured."""
    found: dict[str, Any] = {}
    for result in sorted(Path(root).glob("*/*/result.json")):
        run = result.parent
        ended = json.loads(result.read_text())
        entry: dict[str, Any] = {key: ended.get(key) for key in ("step", "seconds", "reason", "evaluation")}
        tests: dict[str, Any] = {}
        for file in FILES:
            if (run / file).exists():
                tests |= json.loads((run / file).read_text())
        found.setdefault(run.parent.name, {})[run.name] = entry | {"tests": tests}
    for cost in sorted(Path(root).glob("*/cost*.json")):
        found.setdefault("cost", {})[cost.stem] = json.loads(cost.read_text())
    if not found:
        raise ValueError(f"root: expected a folder with runs that have ended, got {root}")
    return found


def points(runs: dict[str, Any], start: str | tuple[str, ...], unit: str) -> dict[str, dict[int, list[float]]]:
    """Accuracy (%) by model and size, one for each seed. A test's name begins with its size and unit.

    A model that was tested with a memory of fewer rows than words, or with fewer words read than in training, has a
    line of its own for that; tests with an approximate index are left out.
    """
    lines: dict[str, dict[int, list[float]]] = {}
    for name, run in runs.items():
        if not name.startswith(start):
            continue
        for test, result in run["tests"].items():
            size, *options = test.split(", ")
            number, what = size.replace(",", "").split()[:2]
            changed = [option for option in options if option.endswith("rows") or option.startswith("K ")]
            by_index = any(option not in changed and not option.startswith("delta") for option in options)
            if what != unit or by_index or result.get("error_rate") is None or "stopped_at" in result:
                continue
            line = lines.setdefault(", ".join([_model(name), *changed]), {})
            line.setdefault(int(number), []).append(100 * (1 - result["error_rate"]))
    return lines


def _model(run: str) -> str:
    after = ", crowded keys" if run.startswith("crowded") else ""
    for start in ("zoology-", "large-", "crowded-", "induction-", "selective-copy-", "both-", "S5-", "A5-"):
        run = run.removeprefix(start)
    return run.rpartition("-")[0] + after


def draw(found: dict[str, Any], path: Path) -> Path:
    """One panel for each test."""
    from sparsam.lab.plots.canvas import COLOURS, new_figure, save

    every = [points(found.get(folder, {}), start, unit) for folder, start, unit, _ in PANELS]
    shown = [panel for panel, line in zip(PANELS, every, strict=True) if line]
    lines = [line for line in every if line]
    columns = min(3, max(1, len(shown)))
    figure, axes = new_figure(4.6 * columns, 3.4 * -(-len(shown) // columns), -(-len(shown) // columns), columns)
    flat = list(axes.flat)
    for axis, line, (_, _, unit, title) in zip(flat, lines, shown, strict=False):
        for (model, sizes), colour in zip(sorted(line.items()), itertools.cycle(COLOURS), strict=False):
            at = sorted(sizes)
            middle = [sorted(sizes[size])[len(sizes[size]) // 2] for size in at]
            axis.plot(at, middle, ".-", color=colour, linewidth=1.6, markersize=6, label=model)
        axis.set_xscale("log")
        axis.set_ylim(-3, 103)
        axis.set_xlabel(unit)
        axis.set_title(title, loc="left", fontsize=10)
        axis.grid(axis="y", alpha=0.25)
        axis.legend(frameon=False, fontsize=7)
    for axis in flat[len(shown) :]:
        axis.set_visible(False)
    flat[0].set_ylabel("answers right (%)")
    return save(figure, path)


def cpu_costs(found: dict[str, Any]) -> dict[str, Any]:
    """Costs on a CPU by model and length, of all the files that they were measured into."""
    merged: dict[str, Any] = {}
    for file, models in found.get("cost", {}).items():
        if file.startswith("cost-cpu"):
            for model, lengths in models.items():
                merged.setdefault(model, {}).update(lengths)
    return merged


def main(arguments: list[str] | None = None) -> Path:
    source, target = map(Path, sys.argv[1:] if arguments is None else arguments)
    if source.is_dir():
        found = collect(source)
        (target / "beside.json").write_text(json.dumps(found, indent=1) + "\n")
    else:
        found = json.loads(source.read_text())
    costs = cpu_costs(found)
    if costs:
        token_report.draw_costs(costs, target / "beside_cost.png")
    return draw(found, target / "beside.png")


if __name__ == "__main__":
    main()
