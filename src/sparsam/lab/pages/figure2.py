"""Figure 2: learning curves on copy, associative recall and priority sort."""

from __future__ import annotations

from typing import Any

from sparsam.lab.pages.tables import Claim, Records, count, median, runs_of, table

TASKS = ("copy", "recall", "sort")
MODELS = {
    "SAM, K = 4": "sam-linear",
    "SAM, K = 8": "sam-k8",
    "SAM, K = 16": "sam-k16",
    "DAM": "dam",
    "NTM": "ntm",
    "LSTM": "lstm",
}
BELOW = "below_0.1_at"


def _solved(rows: list[dict[str, Any]]) -> str:
    solved = [row[BELOW] for row in rows if row[BELOW] is not None]
    return f"{count(median(solved))} ({len(solved)} of {len(rows)})" if solved else f"- (0 of {len(rows)})"


def claims(records: Records) -> list[Claim]:
    rows = records["results/figure2_sequences"]["rows"]

    def reached(task: str, model: str) -> list[int]:
        return [row[BELOW] for row in runs_of(rows, f"{task}-{model}") if row[BELOW] is not None]

    def ends(model: str) -> float:
        return median(row["bits_per_sequence"] for row in runs_of(rows, f"sort-{model}"))

    return [
        Claim(
            "Figure 2: recall learned faster than by dense models",
            "faster",
            f"K = 8: {count(median(reached('recall', 'sam-k8')))} sequences, K = 4: "
            f"{count(median(reached('recall', 'sam-linear')))}; DAM {count(median(reached('recall', 'dam')))}, NTM over 50,000",
            "5, 5; 3, 3",
            "reproduced",
            "figure2",
        ),
        Claim(
            "Figure 2: the same on sort",
            "faster",
            f"K = 8: {ends('sam-k8'):.1f} bits, K = 4: {ends('sam-linear'):.0f}; DAM {ends('dam'):.0f}, NTM {ends('ntm'):.0f}",
            "5, 5; 3, 3",
            "level with DAM by sequences",
            "figure2",
            in_readme=False,
        ),
    ]


def page(records: Records) -> str:
    rows = records["results/figure2_sequences"]["rows"]
    timed = records["results/figure2"]["rows"]
    by_sequences = []
    for name, key in MODELS.items():
        cells = [name]
        for task in TASKS:
            mine = runs_of(rows, f"{task}-{key}")
            final = f"{median(row['bits_per_sequence'] for row in mine):.2g} bits"
            cells.append(_solved(mine) if any(row[BELOW] is not None for row in mine) else final)
        by_sequences.append(cells)
    by_time = []
    for name, key in {"SAM, exact": "sam-linear", "SAM, k-d forest": "sam-ann", "DAM": "dam", "NTM": "ntm"}.items():
        cells = [name]
        for task in TASKS:
            mine = runs_of(timed, f"{task}-{key}")
            final, seconds = (median(row[key] for row in mine) for key in ("bits_per_sequence", "seconds"))
            cells.append(f"{final:.2g} bits, {count(seconds)} s ({len(mine)})")
        by_time.append(cells)
    return f"""# Figure 2: learning curves

The paper: SAM learns copy about as fast as the dense models, and associative recall and priority sort faster.

## By sequences

    sparsam reproduce figure2 --steps 6250 --model sam-linear --model sam-k8 --model sam-k16
    sparsam reproduce figure2 --steps 6250 --seeds 3 --model lstm --model dam --model ntm

The table shows how many training sequences a model needs until 256 test sequences have fewer than 0.1 wrong bits on average:
the median over the seeds that get there, and how many do. If none does within 50,000 sequences, it shows the wrong bits at
the end (median). Chance is 31.5, 9 and 48 bits.

{table(["model", *TASKS], by_sequences)}

![Copy](figure2-copy-sequences.png)
![Recall](figure2-recall-sequences.png)
![Sort](figure2-sort-sequences.png)

## By time

    sparsam reproduce figure2 --budget 200

Wrong bits at the end and seconds on one core (medians), with the number of seeds. A run ends when the task is solved, after
40,000 minibatches, or after 200 s. SAM had 400 s on sort, so those cells are not at equal time.

{table(["model", *TASKS], by_time)}

## Protocol

100 hidden units, 4 heads, words of 32 numbers, K = 4, minibatches of 8, RMSProp with learning rate 1e-3 and decay 0.99,
gradient norm clipped to 1, `start="plain"`. SAM has 1,024 words, NTM and DAM have 128.

Differences from the paper:

- The learning rate is 1e-3, falling to 1e-4, and we chose it on SAM. The paper tried 1e-6 to 5e-4 and took 1e-5, the best for
  DAM. It trained with 8 asynchronous workers, we with one process.
- In training, our recall episodes ask for every pair. The evaluation asks for one, as in the paper.
- By sequences we have 5 seeds of SAM and 3 of each other model. The paper has 30.

Records: `docs/results/figure2_sequences.json`, `docs/results/figure2.json`. More in the
[notebook](../notebook/algorithmic_tasks.md).
"""
