"""Figure 3: how far a curriculum gets in a fixed time."""

from __future__ import annotations

from typing import Any

from pages.pictures import Picture, lines, seeds_of
from pages.tables import Records, about, count, runs_of, shell, table, wrapped

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


def values(records: Records) -> dict[str, Any]:
    rows, one_cue = records[OURS], records[PAPERS]
    levels = [[name, *_columns(runs_of(one_cue, f"recall-one-cue-{key}"))] for name, key in ONE_CUE.items()]
    slow = " and ".join(count(run["levels"]["4096"]) for run in runs_of(rows, "recall-sam-lsh"))
    equal = [
        [name, *(_levels(runs_of(rows, f"{task}-{key}")) for task in TASKS)]
        for name, key in MODELS.items()
        if any(runs_of(rows, f"{task}-{key}") for task in TASKS)
    ]
    exact, lsh = (runs_of(one_cue, f"recall-one-cue-{name}") for name in ("sam-linear", "sam-lsh"))
    beyond = [*runs_of(rows, "recall-sam-lsh-list"), *runs_of(rows, "recall-sam-auto")]
    return {
        **about(rows),
        "commands": shell(command for command in rows["commands"] if "in-turn" not in command),
        "one_cue": about(one_cue),
        "levels": table(["model", "highest level of each seed", "reached after, s", "ended after, s"], levels),
        "ntm": _ntm(one_cue),
        "slow_lsh": slow,
        "equal": table(["model", *TASKS], equal),
        "exact": count(min(row["level"] for row in exact)),
        "exact_seeds": len(exact),
        "lsh": count(min(row["level"] for row in lsh)),
        "lsh_seeds": len(lsh),
        "best_recall": _best(one_cue, "recall-one-cue"),
        "best_copy": _best(rows, "copy"),
        "best_sort": _best(rows, "sort"),
        "beyond": count(max(row["level"] for row in beyond)),
    }


def _columns(runs: list[dict[str, Any]]) -> list[str]:
    """Highest levels, when they were reached, and when the runs ended, a number for each seed."""
    at = [row["levels"].get(str(row["level"])) if row["levels"] else None for row in runs]
    reached = ", ".join("-" if seconds is None else count(seconds) for seconds in at)
    return [_levels(runs), reached, ", ".join(count(row["seconds"]) for row in runs)]


def _ntm(record: dict[str, Any]) -> str:
    """Why NTM stays where it begins: what it gets wrong among exactly two pairs."""
    run = record["runs"][AT_LEVEL]
    wrong = run["curve"][-1][1]
    return wrapped(
        f"NTM does not learn to tell two pairs apart. Repeated, its run has {wrong:.1f} of 16 bits wrong at "
        f"exactly two pairs after {count(run['minibatches'])} minibatches (guessing one of the two: 4)."
    )
