"""The supplementary figure at many lengths in one go: one long sequence of pairs, asked on its way.

    python -m benchmarks.long_recall weights/recall-curriculum-sam.safetensors --threads 3
    python -m benchmarks.long_recall weights/recall-curriculum-sam.safetensors --index auto --piece 100000 \\
        --sizes 10000 50000 100000 200000 400000 1000000 --rows 4200000

At each length the model is asked for pairs whose key no other pair has so far. A state is a value, so the sequence goes
on as if nothing had been asked. Bits are those wrong in an answer, with the standard error over the cues; half of the
bits of a value are chance.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsam.lab.tasks.bits.recall import Recall
from sparsam.lab.training.trained import load_model

PIECE = 10_000  # pairs given at a time


def measure(
    weights: str | Path,
    sizes: Sequence[int],
    seed: int = 1,
    index: str = "linear",
    settings: dict[str, int] | None = None,
    cues: int = 256,
    rows: int | None = None,
    piece: int = PIECE,
) -> Iterator[dict[str, Any]]:
    """Bits wrong per cue at each of the sizes, from the shortest to the longest; `rows` of memory, or the run's own."""
    changed: dict[str, Any] = {} if rows is None else {"memory_size": rows}
    model, task, _ = load_model(weights, index=index, index_settings=settings or {}, **changed)
    if not isinstance(task, Recall) or not task.paired:
        raise ValueError(f"weights: expected a model of recall with a pair per step, got {weights}")
    model.eval()
    sizes = sorted(sizes)
    bits, longest = task.bits, sizes[-1]
    task = Recall(bits=bits, paired=True, cues=cues)
    batch = task.sample_size(1, torch.Generator().manual_seed(seed), longest)
    pairs, state, done, start = batch.inputs[:longest], None, 0, time.monotonic()
    with torch.no_grad():
        for size in sizes:
            while done < size:
                end = min(done + piece, size)
                _, state = model(pairs[done:end], state)
                done = end
            # At the end, the cues that the task draws itself; at that length it sees to it that they are unique.
            ask, want = unique_cues(pairs[:size], bits, cues)
            if size == longest:
                ask, want = batch.inputs[longest:], batch.targets[longest:]
            answers, _ = model(ask, state)
            wrong = ((answers > 0) != (want > 0.5)).sum((1, 2)).double()
            yield {
                "pairs": size,
                "bits per cue": wrong.mean().item(),
                "standard error": (wrong.std() / len(wrong) ** 0.5).item(),
                "cues": len(want),
                "seconds": time.monotonic() - start,
            }


def unique_cues(pairs: Tensor, bits: int, count: int) -> tuple[Tensor, Tensor]:
    """Questions (count, 1, I) for pairs (n, 1, I) whose key occurs once, and their values (count, 1, bits)."""
    keys = np.packbits(pairs[:, 0, :bits].bool().numpy(), axis=1)
    _, which, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    unique = torch.from_numpy(np.flatnonzero(counts[which.reshape(-1)] == 1))
    pick = unique[torch.randperm(len(unique), generator=torch.Generator().manual_seed(len(pairs)))[:count]]
    ask = torch.zeros(len(pick), 1, pairs.shape[2])
    ask[:, 0, :bits] = pairs[pick, 0, :bits]
    ask[:, 0, 2 * bits] = 1
    return ask, pairs[pick, :, bits : 2 * bits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000, 100_000, 150_000, 200_000])
    parser.add_argument("--index", default="linear", choices=["linear", "scan", "kdtree", "lsh", "auto"])
    parser.add_argument("--checks", type=int, help="of the index")
    parser.add_argument("--rows", type=int, help="of the memory; each pair takes three or four")
    parser.add_argument("--cues", type=int, default=256)
    parser.add_argument("--piece", type=int, default=PIECE, help="pairs given in one call")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="that share an exact search")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    settings = {} if given.checks is None else {"checks": given.checks}
    how = (given.seed, given.index, settings, given.cues, given.rows, given.piece)
    for row in measure(given.weights, given.sizes, *how):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
