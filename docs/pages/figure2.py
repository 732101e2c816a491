"""Figure 2: learning curves on copy, associative recall and priority sort."""

from __future__ import annotations

from typing import Any

from pages.pictures import Picture, lines, seeds_of
from pages.tables import Records, about, count, end, median, runs_of, shell, table, wrapped

TASKS = ("copy", "recall", "sort")
MODELS = {
    "SAM, K = 4": "sam-linear",
    "SAM, K = 8": "sam-k8",
    "SAM, K = 16": "sam-k16",
    "DAM": "dam",
    "NTM": "ntm",
    "LSTM": "lstm",
}
SEQUENCES, TIME = "results/figure2_sequences", "results/figure2"
BELOW = "solved_at"


def _solved(rows: list[dict[str, Any]]) -> str:
    solved = [row[BELOW] for row in rows if row[BELOW] is not None]
    return f"{count(median(solved))} ({len(solved)} of {len(rows)})" if solved else f"- (0 of {len(rows)})"


def pictures(records: Records) -> dict[str, Picture]:
    """Wrong bits over sequences, a picture for each task."""
    made = {}
    for task in TASKS:
        curves = {
            name: [
                [[run["sequences"] // run["minibatches"] * at, bits] for at, bits in run["curve"]]
                for run in runs_of(records[SEQUENCES], f"{task}-{key}")
            ]
            for name, key in MODELS.items()
        }
        title = f"{task}: wrong bits per sequence (median and range of {seeds_of(curves)} seeds)"
        made[f"figure2-{task}-sequences.png"] = lines(title, "wrong bits per sequence", "sequences", curves)
    return made


def values(records: Records) -> dict[str, Any]:
    rows = records[SEQUENCES]
    timed = records[TIME]
    by_sequences = []
    for name, key in MODELS.items():
        cells = [name]
        for task in TASKS:
            mine = runs_of(rows, f"{task}-{key}")
            final = f"{median(end(run) for run in mine):.2g} bits"
            cells.append(_solved(mine) if any(row[BELOW] is not None for row in mine) else final)
        by_sequences.append(cells)
    by_time = []
    for name, key in {"SAM, exact": "sam-linear", "SAM, k-d forest": "sam-ann", "DAM": "dam", "NTM": "ntm"}.items():
        cells = [name]
        for task in TASKS:
            mine = runs_of(timed, f"{task}-{key}")
            bits, seconds = median(end(run) for run in mine), median(run["seconds"] for run in mine)
            cells.append(f"{bits:.2g} bits, {count(seconds)} s ({len(mine)})")
        by_time.append(cells)

    def solves(model: str) -> str:
        found = (row[BELOW] for row in runs_of(rows, f"recall-{model}"))
        return count(median(at for at in found if at is not None))

    def ends(model: str) -> float:
        return median(end(run) for run in runs_of(rows, f"sort-{model}"))

    return {
        **about(rows),
        "by_sequences": table(["model", *TASKS], by_sequences),
        "ranges": _ranges(rows),
        "timed_commands": shell(timed["commands"]),
        "by_time": table(["model", *TASKS], by_time),
        "sam_solves": solves("sam-linear"),
        "dam_solves": solves("dam"),
        "sam_ends": ends("sam-linear"),
        "dam_ends": ends("dam"),
        "ntm_ends": ends("ntm"),
    }


def _ranges(record: dict[str, Any]) -> str:
    """Fastest and slowest seed on recall, so that nobody reads more out of the medians than is in them."""
    found = {name: [run[BELOW] for run in runs_of(record, f"recall-{key}")] for name, key in MODELS.items()}
    spans = [f"{count(min(at))} to {count(max(at))} for {name}" for name, at in found.items() if at and None not in at]
    return wrapped(
        f"The seeds on recall took {'; '.join(spans)}. SAM's and DAM's overlap; NTM and LSTM are far behind."
    )
