"""Whether a SAM in bfloat16 learns what it learns in float32: copy and recall as in figure 2, by the same minibatches.

    python -m benchmarks.gpu_learning --steps 7000 --out runs/bench/gpu_learning.json

With `--small` the sequences are short enough to be learnt in minutes: copies of 1 to 6 items, and 3 to 6 pairs of
which a step shows key and value together, all asked for; minibatches of 32 in place of 16.

Weights are kept in float32 and rounded for every minibatch, as usual with bfloat16; RMSProp as in figure 2.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks.report import as_record
from sparsam.lab.recipes.figure2 import TASKS
from sparsam.lab.recipes.record import text
from sparsam.lab.training.config import TaskConfig

SMALL = {
    "copy": TaskConfig("copy", {"bits": 6, "min_size": 1, "max_size": 6}),
    "recall": TaskConfig("recall", {"bits": 6, "min_size": 3, "max_size": 6, "paired": True, "cues": 6}),
}
LAST = 200  # minibatches at the end over which errors are averaged
BATCH, SMALL_BATCH = 16, 32


def learn(
    name: str, dtype: torch.dtype, steps: int, small: bool = False, device: str = "cuda", engine: str = "cuda"
) -> dict[str, Any]:
    """Bits wrong per sequence over the last minibatches, and seconds."""
    torch.manual_seed(0)
    task: Any = (SMALL if small else TASKS)[name].build(for_training=True)
    kept = sparsam.SAM(task.input_size, task.output_size, memory_size=128, engine=engine).to(device)
    run = copy.deepcopy(kept).to(dtype)
    optimizer = torch.optim.RMSprop(kept.parameters(), lr=1e-3, alpha=0.99, eps=1e-8)
    generator = torch.Generator().manual_seed(1)
    wrong: list[torch.Tensor] = []
    headline = ""
    begin = time.perf_counter()
    for _ in range(steps):
        batch = task.sample(SMALL_BATCH if small else BATCH, generator).to(device)
        outputs, _ = run(batch.inputs.to(dtype), lengths=batch.lengths)
        outputs = outputs.float()
        run.zero_grad(set_to_none=True)
        task.loss(outputs, batch).backward()
        for mine, its in zip(kept.parameters(), run.parameters()):
            mine.grad = None if its.grad is None else its.grad.float()
        torch.nn.utils.clip_grad_norm_(kept.parameters(), 10.0)
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(kept.parameters(), run.parameters()):
                its.copy_(mine)
        errors = task.errors(outputs.detach(), batch)
        headline = next(iter(errors))
        wrong.append(torch.as_tensor(errors[headline]))
    seconds = time.perf_counter() - begin
    last = torch.stack([value.float().cpu() for value in wrong[-LAST:]])
    return {headline: float(last.mean()), "seconds": seconds, "minibatches": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/gpu_learning.json"))
    given = parser.parse_args()
    found = {}
    for name in ("copy", "recall"):
        for dtype in (torch.float32, torch.bfloat16):
            found[f"{name}, {str(dtype).removeprefix('torch.')}"] = learn(name, dtype, given.steps, given.small)
            print(json.dumps(found), flush=True)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(text(as_record("gpu_learning", found, sys.argv[1:])))


if __name__ == "__main__":
    main()
