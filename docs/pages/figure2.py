"""Figure 2: learning curves on copy, associative recall and priority sort."""

from __future__ import annotations

from typing import Any

from pages.pictures import Picture, lines, seeds_of
from pages.tables import Records, about, count, end, median, runs_of, shell, table

TASKS = ("copy", "recall", "sort")
MODELS = {
    "SAM, K = 4": "sam-linear",
    "SAM, K = 8": "sam-k8",
    "SAM, K = 16": "sam-k16",
    "DAM": "dam",
    "NTM": "ntm",
    "LSTM": "lstm",
}
SEQUENCES = "results/figure2_sequences"
RATES, ONE_CUE, OPEN = "results/figure2_rates", "results/figure2_one_cue", "results/figure2_one_cue_open"
CUE = "recall-one-cue"
MINIBATCH, BELOW = 8, 0.1  # sequences; wrong bits of a task that is solved


def _solved_at(run: dict[str, Any]) -> int | None:
    """Sequences until the first evaluation with fewer than 0.1 wrong bits."""
    return next((step * MINIBATCH for step, bits in run["curve"] if bits < BELOW), None)


def _cell(runs: list[dict[str, Any]]) -> str:
    """Sequences until solved, by those seeds that got there, or the wrong bits at the end where none did."""
    solved = [at for at in map(_solved_at, runs) if at is not None]
    if solved:
        return f"{count(median(solved))} ({len(solved)} of {len(runs)})"
    return f"{median(end(run) for run in runs):.2g} bits" if runs else "-"


def pictures(records: Records) -> dict[str, Picture]:
    """Wrong bits over sequences, a picture for each task."""
    made = {}
    for task in TASKS:
        curves = {
            name: [
                [[MINIBATCH * at, bits] for at, bits in run["curve"]]
                for run in runs_of(records[SEQUENCES], f"{task}-{key}")
            ]
            for name, key in MODELS.items()
        }
        title = f"{task}: wrong bits per sequence (median and range of {seeds_of(curves)} seeds)"
        made[f"figure2-{task}-sequences.png"] = lines(title, "wrong bits per sequence", "sequences", curves)
    return made


def values(records: Records) -> dict[str, Any]:
    rows, one_cue, opened = (records[name] for name in (SEQUENCES, ONE_CUE, OPEN))

    def plain(key: str) -> str:
        return _cell(runs_of(one_cue, f"{CUE}-{key}"))

    by_sequences = [
        [name, _cell(runs_of(rows, f"copy-{key}")), plain(key), _cell(runs_of(rows, f"sort-{key}"))]
        for name, key in MODELS.items()
    ]
    all_cues = [[name, _cell(runs_of(rows, f"recall-{key}"))] for name, key in MODELS.items()]
    from_open = [
        [name, plain(key), _cell(runs_of(opened, f"{CUE}-{key}"))]
        for name, key in MODELS.items()
        if runs_of(opened, f"{CUE}-{key}")
    ]

    def ends(model: str) -> float:
        return median(end(run) for run in runs_of(rows, f"sort-{model}"))

    return {
        **about(rows),
        "commands": shell([*records[RATES]["commands"], *rows["commands"], *one_cue["commands"]]),
        "rates": _rates(records[RATES]),
        "by_sequences": table(["model", "copy", "recall, one cue", "sort"], by_sequences),
        "open_commands": shell(opened["commands"]),
        "from_open": table(["recall, one cue", '`start="plain"`', '`start="open"`'], from_open),
        "all_cues": table(["model", "recall"], all_cues),
        "dam_seeds": len(runs_of(one_cue, f"{CUE}-dam")),
        "sam": plain("sam-linear"),
        "sam_k16": plain("sam-k16"),
        "dam": plain("dam"),
        "sam_open": _cell(runs_of(opened, f"{CUE}-sam-linear")),
        "dam_open": _cell(runs_of(opened, f"{CUE}-dam")),
        "sam_ends": ends("sam-linear"),
        "dam_ends": ends("dam"),
        "ntm_ends": ends("ntm"),
    }


def _rates(record: dict[str, Any]) -> str:
    """DAM at every rate that the paper tried."""
    tasks = {"copy": "copy", CUE: "recall, one cue"}
    rates = sorted(
        {key.removeprefix("copy-dam-").rpartition("-")[0] for key in record["runs"] if "copy" in key}, key=float
    )
    lines = [[rate, *(_cell(runs_of(record, f"{task}-dam-{rate}")) for task in tasks)] for rate in rates]
    return table(["DAM, rate", *tasks.values()], lines)
