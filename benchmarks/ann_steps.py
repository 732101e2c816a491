"""Time of a step with an index: over the number of words, pre-loaded or written, and along long sequences."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import sparsam
from benchmarks.ann_words import drawn
from benchmarks.setting import BATCH, STEPS, lstm_step, model_of, training_step
from benchmarks.timing import take_turns
from sparsam import indexes

SIZES = (1_000, 2_000, 4_000, 6_000, 8_000, 12_000, 16_000, 32_000, 64_000, 128_000)
KINDS: dict[str, indexes.Index] = {"scan": sparsam.Scan(), "auto": sparsam.Auto()}


def loaded_step(words: np.ndarray, index: indexes.Index, steps: int = STEPS) -> Any:
    """A training step from a memory full of these words; the index over them is made before the clock starts."""
    model = model_of("sam", len(words), index=index)
    state = model.initial_state(BATCH, torch.from_numpy(np.ascontiguousarray(words)))
    return training_step(model, steps=steps, state=state)


def over_loaded(sizes: tuple[int, ...], seconds: float) -> Iterator[dict[str, Any]]:
    """Microseconds per training step from memories full of random words, exact search beside the indexes."""
    for rows in sizes:
        words = drawn(rows).words
        calls: dict[str, Any] = {"exact": loaded_step(words, sparsam.Linear(), 10), "nn.LSTM": lstm_step()}
        calls |= {name: loaded_step(words, index) for name, index in KINDS.items()}
        times = take_turns(calls, seconds)
        us = {name: timing.median / (10 if name == "exact" else STEPS) * 1e6 for name, timing in times.items()}
        yield {"words": rows, "us": us}


def over_written(sizes: tuple[int, ...], batch: int = BATCH) -> Iterator[dict[str, Any]]:
    """Microseconds of processor time per step without gradients, as a blank memory fills: four words a step at most."""
    names: dict[str, indexes.Index] = {"exact": sparsam.Linear(), **KINDS}
    models = {name: model_of("sam", 8 * sizes[-1], index=index) for name, index in names.items()}
    states: dict[str, Any] = dict.fromkeys(names)
    x = torch.randn(sizes[-1] // 2, batch, 8, generator=torch.Generator().manual_seed(0))
    done = 0
    with torch.no_grad():
        while done < len(x):
            steps = max(50, done // 4)
            us = {}
            for name, model in models.items():
                begin = time.thread_time()
                _, states[name] = model(x[done : done + steps], states[name])
                us[name] = (time.thread_time() - begin) / min(steps, len(x) - done) * 1e6
            done += steps
            words = len(states["exact"].memory_rows(0)[0])
            if words >= sizes[0]:
                yield {"words": words, "us": us, "used": states["auto"].index_used[0]}
            if words >= sizes[-1]:
                return


def first_faster(rows: list[dict[str, Any]], name: str) -> int | None:
    """The least number of words from which on `name` is faster than exact search at every size; None for never."""
    faster = None
    for row in sorted(rows, key=lambda row: row["words"], reverse=True):
        if row["us"][name] >= row["us"]["exact"]:
            break
        faster = row["words"]
    return faster


def long_sequence(steps: int, rows: int = 2_000_000) -> list[float]:
    """Microseconds per step (processor time), forward, in each tenth of a sequence from a blank memory, B = 1."""
    model = model_of("sam", rows, index=sparsam.Auto())
    spent, state = [], None
    with torch.no_grad():
        for _ in range(10):
            x = torch.randn(steps // 10, 1, 8)
            begin = time.thread_time()
            _, state = model(x, state)
            spent.append((time.thread_time() - begin) / (steps // 10) * 1e6)
    return spent
