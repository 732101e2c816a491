"""What trained models make of stories that bAbI's generator does not tell (`sparsam.tasks.babi_shifts`).

python -m benchmarks.babi_shifts babi-sam babi-sdnc [--stories 1000] [--out docs/results]
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

from sparsam.tasks.babi import encode, question_results
from sparsam.tasks.babi_shifts import SHIFTS, Shift, stories
from sparsam.training.saved import load_model


@torch.no_grad()
def error(model: torch.nn.Module, shift: Shift, count: int, scale: float) -> float:
    """Share of the questions of `count` stories that the model gets wrong."""
    drawn = encode(stories(shift, count))
    order = np.argsort(drawn.lengths, kind="stable")
    right = 0
    for start in range(0, count, 100):
        batch = drawn.batch(order[start : start + 100], scale)
        outputs, _ = model(batch.inputs, lengths=batch.lengths)
        right += int(question_results(outputs, batch)[1].sum())
    return 1 - right / count


def table(rows: list[dict]) -> str:
    models = [key for key in rows[0] if key not in ("task", "stories")]
    lines = ["| task | stories | " + " | ".join(models) + " |", "|---|---|" + "---|" * len(models)]
    for row in rows:
        cells = [f"{100 * row[model]:.1f}" for model in models]
        lines.append(f"| {row['task']} | {row['stories']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("weights", nargs="+", help="names of weights, files or run folders")
    parser.add_argument("--stories", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    rows: list[dict] = [{"task": shift.task, "stories": shift.name} for shift in SHIFTS]
    for weights in settings.weights:
        model, task, _ = load_model(weights)
        model.eval()
        for row, shift in zip(rows, SHIFTS):
            row[Path(weights).stem] = error(model, shift, settings.stories, task.scale)
    print(f"error in percent, {settings.stories:,} stories of one question each")
    print(table(rows))
    widest = 100 * 1.96 * math.sqrt(0.25 / settings.stories)
    print(f"two figures of one row differ by chance when they are closer than about {1.4 * widest:.1f}")
    if settings.out:
        result = {"stories": settings.stories, "seed": 0, "rows": rows}
        settings.out.mkdir(parents=True, exist_ok=True)
        (settings.out / "babi_shifts.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
