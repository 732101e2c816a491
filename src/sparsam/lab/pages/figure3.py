"""Figure 3: how far a curriculum gets in a fixed time."""

from __future__ import annotations

from typing import Any

from sparsam.lab.pages.pictures import Picture, lines, seeds_of
from sparsam.lab.pages.tables import Claim, Records, count, differences, protocol, runs_of, shell, table, wrapped

PAPERS, OURS = "results/figure3_one_cue", "results/figure3"
ONE_CUE = {"SAM, exact search": "sam-linear", "SAM, LSH, 20,480 checks": "sam-lsh", "DAM": "dam", "NTM": "ntm"}
AT_LEVEL = "ntm, evaluated at its level"
TASKS = ("recall", "copy", "sort")
START = {"recall-one-cue": 2, "recall": 8, "copy": 32, "sort": 16}  # the level at which a curriculum begins
MODELS = {
    "SAM, exact search": "sam-linear",
    "SAM, k-d forest": "sam-ann",
    "SAM, LSH": "sam-lsh",
    "SAM, LSH, 4,096 checks": "sam-lsh-list",
    "SAM, auto": "sam-auto",
    "DAM": "dam",
    "NTM": "ntm",
}


def _levels(rows: list[dict[str, Any]]) -> str:
    return ", ".join(count(row["level"]) for row in rows) or "-"


def _best(record: dict[str, Any], task: str) -> str:
    """The highest level of any seed of SAM with exact search, DAM and NTM."""
    found = [runs_of(record, f"{task}-{model}") for model in ("sam-linear", "dam", "ntm")]
    return ", ".join(count(max(run["level"] for run in runs)) for runs in found)


def claims(records: Records) -> list[Claim]:
    rows, one_cue = records[OURS], records[PAPERS]
    exact, lsh = (runs_of(one_cue, f"recall-one-cue-{name}") for name in ("sam-linear", "sam-lsh"))
    beyond = [*runs_of(rows, "recall-sam-lsh-list"), *runs_of(rows, "recall-sam-auto")]
    return [
        Claim(
            "Figure 3: recall past level 4,000",
            "past 4,000",
            f"level {count(min(row['level'] for row in exact))}; LSH {count(min(row['level'] for row in lsh))}",
            f"{len(exact)}; {len(lsh)}",
            "reproduced",
            "figure3",
        ),
        Claim(
            "Figure 3: SAM further than DAM and NTM",
            "all three tasks",
            f"best level of SAM, DAM, NTM: recall {_best(one_cue, 'recall-one-cue')}; copy {_best(rows, 'copy')}; "
            f"sort {_best(rows, 'sort')}",
            "5; 1 to 3",
            "reproduced, dense models with fewer seeds and less time",
            "figure3",
            in_readme=False,
        ),
        Claim(
            "Recall curriculum, key and value in one step, 16 cues",
            "",
            f"level {count(max(row['level'] for row in beyond))} (LSH with 4,096 checks, and auto)",
            "1 each",
            "",
            "figure3",
            in_readme=False,
        ),
    ]


def pictures(records: Records) -> dict[str, Picture]:
    """Levels over time. LSH with its default settings is left out: its runs had about a tenth of a core."""
    shown = {task: {name: key for name, key in MODELS.items() if key != "sam-lsh"} for task in TASKS}
    made = {}
    for task, models, record in [
        ("recall-one-cue", ONE_CUE, records[PAPERS]),
        *((task, shown[task], records[OURS]) for task in TASKS),
    ]:
        curves = {
            name: [_climb(run, START[task]) for run in runs_of(record, f"{task}-{key}")]
            for name, key in models.items()
            if runs_of(record, f"{task}-{key}")
        }
        title = f"{task.replace('-', ' ')}: level (median and range of {seeds_of(curves)} seeds)"
        made[f"figure3-{task}-levels.png"] = lines(title, "level", "seconds", curves)
    return made


def _climb(run: dict[str, Any], start: int) -> list[list[float]]:
    """Seconds and levels of a run, from its first level to its end."""
    reached = [[seconds, float(level)] for level, seconds in run["levels"].items()]
    return [[0.0, float(start)], *reached, [run["seconds"], float(run["level"])]]


def page(records: Records) -> str:
    rows, one_cue = records[OURS], records[PAPERS]
    levels = [[name, *_columns(runs_of(one_cue, f"recall-one-cue-{key}"))] for name, key in ONE_CUE.items()]
    lsh = " and ".join(count(run["levels"]["4096"]) for run in runs_of(rows, "recall-sam-lsh"))
    equal = [
        [name, *(_levels(runs_of(rows, f"{task}-{key}")) for task in TASKS)]
        for name, key in MODELS.items()
        if any(runs_of(rows, f"{task}-{key}") for task in TASKS)
    ]
    return f"""# Figure 3: the curriculum

The paper trains each model on sequences of random length up to a level, and doubles the level whenever the loss is low.
With 2,000,000 words, SAM passes level 4,000 on associative recall. The dense models have 64 words, which take about as
much RAM.

## In the paper's protocol

{shell(one_cue["commands"])}

{table(["model", "highest level of each seed", "reached after, s", "ended after, s"], levels)}

![Levels over time, paper's protocol](figure3-recall-one-cue-levels.png)

{protocol(one_cue)}

{differences(one_cue)}

**The times are not equal.** Five of SAM's runs were resumed after 300 s, until they had reached level 4,096; DAM and NTM have
one seed each and stopped there. The two cores also did other work.

{_ntm(one_cue)}

## All three tasks, about the same time for each model

300 s per run on one core (SAM with an approximate index on recall: 425 to 563 s; LSH with its default settings, which got about
a tenth of a core: {lsh} s to level 4,096). Levels of all seeds:

{table(["model", *TASKS], equal)}

![Recall, without LSH at its default settings](figure3-recall-levels.png)
![Copy](figure3-copy-levels.png)
![Sort](figure3-sort-levels.png)

{shell(command for command in rows["commands"] if "in-turn" not in command)}

{protocol(rows)}

{differences(rows)}

A level counts once it is reached. Records: `docs/results/figure3_one_cue.json`, `docs/results/figure3.json`. Other attempts are
in the [notebook](../notebook/algorithmic_tasks.md).
"""


def _columns(runs: list[dict[str, Any]]) -> list[str]:
    """Highest levels, when they were reached, and when the runs ended, a number for each seed."""
    at = [row["levels"].get(str(row["level"])) if row["levels"] else None for row in runs]
    reached = ", ".join("-" if seconds is None else count(seconds) for seconds in at)
    return [_levels(runs), reached, ", ".join(count(row["seconds"]) for row in runs)]


def _ntm(record: dict[str, Any]) -> str:
    """Why NTM stays where it begins: what it gets wrong among exactly two pairs."""
    run = record["runs"][AT_LEVEL]
    return wrapped(
        f"NTM does not learn to tell two pairs apart. Repeated, its run has {run['curve'][-1][1]:.1f} of 16 bits wrong at exactly "
        f"two pairs after {count(run['minibatches'])} minibatches (guessing one of the two: 4)."
    )
