"""What a model over tokens costs as sequences grow: seconds per token, and bytes that training keeps per token.

Each figure is one sequence (B = 1) of a fresh model. On a CPU bytes are those of the process, and one that has measured
before holds memory that the next measurement would not see: there each figure has a process of its own, which is
`python -m sparsam.lab.recipes.token_cost JSON`.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F

from sparsam.lab.training.config import ModelConfig, RunConfig

LENGTHS = (256, 1_024, 4_096, 16_384, 40_960)
_WARM_UP = 64  # tokens


def measure(config: ModelConfig, length: int, vocabulary: int = 8192, device: str = "cpu") -> dict[str, float]:
    """The figures of `measure_here`, on a CPU from a fresh process."""
    if torch.device(device).type == "cuda":
        return measure_here(config, length, vocabulary, device)
    whole = RunConfig(model=config).to_dict()
    task = json.dumps({"config": whole, "length": length, "vocabulary": vocabulary, "device": device})
    done = subprocess.run(
        [sys.executable, "-m", "sparsam.lab.recipes.token_cost", task], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{length:,} tokens could not be measured: {reason}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_here(config: ModelConfig, length: int, vocabulary: int = 8192, device: str = "cpu") -> dict[str, float]:
    """Seconds per token to run and to train, and bytes per token kept from the forward pass for the backward pass.

    Every fourth token is an answer, as in MQAR; the memory has room for every word that could be written.
    """
    torch.manual_seed(0)
    rows = 1 << (length * config.num_heads - 1).bit_length()
    config = copy.deepcopy(config)
    config.memory_size = max(rows, 1024)
    model = config.build(vocabulary, vocabulary).to(device)
    tokens = torch.randint(vocabulary, (length, 1), device=device)
    mask = (torch.arange(length, device=device) % 4 == 3).unsqueeze(1)

    def loss(steps: int) -> Any:
        scores, _ = model(tokens[:steps], mask=mask[:steps])
        return F.cross_entropy(scores, tokens[:steps][mask[:steps]])

    loss(_WARM_UP).backward()
    gc.collect()
    before = held_bytes(device)  # first of all: what an earlier pass has freed would be used again unseen
    begin = _now(device)
    total = loss(length)
    forward = _now(device) - begin
    kept = held_bytes(device) - before
    backward = _seconds(total.backward, device)
    with torch.no_grad():
        run = _seconds(lambda: model(tokens, mask=mask), device)
    return {
        "seconds_per_token": run / length,
        "training_seconds_per_token": (forward + backward) / length,
        "training_bytes_per_token": kept / length,
    }


def _seconds(action: Any, device: str) -> float:
    begin = _now(device)
    action()
    return _now(device) - begin


def _now(device: str) -> float:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def held_bytes(device: str) -> int:
    """Bytes of tensors on a GPU, resident bytes of this process on a CPU."""
    if torch.device(device).type == "cuda":
        return torch.cuda.memory_allocated(device)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(device: str) -> int:
    """The most that `held_bytes` has been so far."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    task["config"] = RunConfig.from_dict(task["config"]).model
    print(json.dumps(measure_here(**task)))
