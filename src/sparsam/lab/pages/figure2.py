"""Figure 2: learning curves on copy, associative recall and priority sort."""

from __future__ import annotations

from typing import Any

from sparsam.lab.pages.pictures import Picture, lines, seeds_of
from sparsam.lab.pages.tables import (
    Claim,
    Records,
    count,
    differences,
    end,
    median,
    protocol,
    runs_of,
    shell,
    table,
    wrapped,
)

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


def claims(records: Records) -> list[Claim]:
    rows = records[SEQUENCES]

    def reached(task: str, model: str) -> list[int]:
        return [row[BELOW] for row in runs_of(rows, f"{task}-{model}") if row[BELOW] is not None]

    def ends(model: str) -> float:
        return median(end(run) for run in runs_of(rows, f"sort-{model}"))

    return [
        Claim(
            "Figure 2: recall learned faster than by dense models",
            "faster",
            f"{count(median(reached('recall', 'sam-linear')))} sequences; DAM {count(median(reached('recall', 'dam')))}, "
            "NTM over 50,000",
            "5; 3, 3",
            "ahead of NTM, level with DAM",
            "figure2",
        ),
        Claim(
            "Figure 2: sort, wrong bits after 50,000 sequences",
            "faster",
            f"{ends('sam-linear'):.0f} bits; DAM {ends('dam'):.0f}, NTM {ends('ntm'):.0f}",
            "5; 3, 3",
            "ahead of NTM, level with DAM",
            "figure2",
            in_readme=False,
        ),
    ]


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


def page(records: Records) -> str:
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
    return f"""# Figure 2: learning curves

The paper: SAM learns copy about as fast as the dense models, and associative recall and priority sort faster.

## By sequences

{shell(rows["commands"])}

The table shows how many training sequences a model needs until 256 test sequences have fewer than 0.1 wrong bits on average:
the median over the seeds that get there, and how many do. If none does within 50,000 sequences, it shows the wrong bits at
the end (median). Chance is 31.5, 9 and 48 bits.

{table(["model", *TASKS], by_sequences)}

{_ranges(rows)}

![Copy](figure2-copy-sequences.png)
![Recall](figure2-recall-sequences.png)
![Sort](figure2-sort-sequences.png)

## By time

{shell(timed["commands"])}

Wrong bits at the end and seconds on one core (medians), with the number of seeds. A run ends when the task is solved, after
40,000 minibatches, or when its time is over. SAM had twice the time on sort, so those cells are not at equal time.

{table(["model", *TASKS], by_time)}

## Protocol

{protocol(rows)}

{differences(rows)}

Records: `docs/results/figure2_sequences.json`, `docs/results/figure2.json`. More in the
[notebook](../notebook/algorithmic_tasks.md).
"""


def _ranges(record: dict[str, Any]) -> str:
    """Fastest and slowest seed on recall, so that nobody reads more out of the medians than is in them."""
    found = {name: [run[BELOW] for run in runs_of(record, f"recall-{key}")] for name, key in MODELS.items()}
    spans = [f"{count(min(at))} to {count(max(at))} for {name}" for name, at in found.items() if at and None not in at]
    return wrapped(
        f"The seeds on recall took {'; '.join(spans)}. SAM's and DAM's overlap; NTM and LSTM are far behind."
    )
