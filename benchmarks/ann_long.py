"""What an approximate index finds along long sequences of a trained model, and what that does to the loss.

    python -m benchmarks.ann_long weights/recall-curriculum-sam.safetensors

The weights learnt associative recall with exact search (figure 3). Here they read sequences of 1,000 and 5,000 pairs,
64 of which are asked for, with each index in turn: the same weights, the same sequences.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks.recall import recall_along
from benchmarks.trained_words import WEIGHTS, model_of
from sparsam import indexes
from sparsam.lab import tasks
from sparsam.lab.recipes.figure3 import TASKS

INDEXES: tuple[indexes.Index, ...] = (
    sparsam.Linear(),
    sparsam.Auto(),
    sparsam.Scan(),
    sparsam.Scan(checks=16),
    sparsam.LSH(),
    sparsam.KDForest(),
)
SIZES, CUES, BATCH = (1_000, 5_000), 64, 2


def bits_wrong(pairs: int, weights: Path = WEIGHTS, seed: int = 1) -> dict[str, int]:
    """Bits wrong in the answers to 64 cues after `pairs` pairs, by the name of the index; chance is 512."""
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": CUES}))
    batch = task.sample_size(1, torch.Generator().manual_seed(seed), pairs)
    found = {}
    for name in indexes.NAMES:
        model = model_of(weights, pairs, indexes.resolve(name))
        with torch.no_grad():
            outputs, _ = model(batch.inputs)
        found[name] = int(((outputs[pairs:] > 0) != (batch.targets[pairs:] > 0.5)).sum())
    return found


def main(weights: str) -> None:
    from safetensors.torch import load_file

    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": CUES}))
    print("| pairs | index | loss, nats per bit | bits wrong per answer | recall of K | of the first |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        batch = task.sample_size(BATCH, torch.Generator().manual_seed(3), size)
        for index in INDEXES:
            # Room for all that R = 4 heads write anew.
            model = sparsam.SAM(
                task.input_size, task.output_size, memory_size=4 * len(batch.inputs), index=index, engine="native"
            )
            model.load_state_dict(load_file(weights))
            with torch.no_grad():
                outputs, _ = model(batch.inputs)
                loss, bits = task.loss(outputs, batch), next(iter(task.errors(outputs, batch).values())) / CUES
                both = recall_along(model, batch.inputs[:, :1])
            print(f"| {size:,} | `{index}` | {loss:.4f} | {bits:.3f} | {both[0]:.3f} | {both[1]:.3f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
