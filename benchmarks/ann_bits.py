"""What an index costs in bits: trained weights with each index in turn, on the same sequences, against exact search."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ann_words import SDNC_WEIGHTS
from benchmarks.trained_words import WEIGHTS, model_of
from sparsam import indexes
from sparsam.lab import tasks
from sparsam.lab.recipes.figure3 import TASKS
from sparsam.lab.training.trained import load_model

CUES = 256
SCORED = 8  # steps that are timed with every word scored


def sequence(
    pairs: int, index: str, seed: int = 1, cues: int = CUES, others: Sequence[str] = (), weights: Path = WEIGHTS
) -> Iterator[dict[str, Any]]:
    """One sequence written and asked with one index, and the same questions from its last state with others.

    Yields a finding after every tenth of the pairs, and the bits wrong at the end (half of them are chance).
    """
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": cues}))
    batch = task.sample_size(1, torch.Generator().manual_seed(seed), pairs)
    asked, wanted = batch.inputs[pairs:], batch.targets[pairs:] > 0.5
    model = model_of(weights, pairs, indexes.resolve(index))
    scoring = model_of(weights, pairs, indexes.Linear(), "euclidean")
    state, done, spent, wall, tenths, scored = None, 0, 0.0, 0.0, [], []
    with torch.no_grad():
        for tenth in range(1, 11):
            until, begin, before = pairs * tenth // 10, time.perf_counter(), time.thread_time()
            from_there, done = done, until
            _, state = model(batch.inputs[from_there:until], state)
            used = time.thread_time() - before
            spent, wall = spent + used, wall + time.perf_counter() - begin
            tenths.append(used / (until - from_there) * 1e6)
            scored.append(us_per_step(scoring, batch.inputs[:SCORED], state))
            yield {
                "pairs": done,
                "index": index,
                "seed": seed,
                "seconds": wall,
                "us per step, each tenth": list(tenths),
                "us per step, every word scored": list(scored),
            }
        found: dict[str, Any] = {"processor seconds": spent, "cues": cues, "bits wrong": {}, "us per cue": {}}
        for name in (index, *(other for other in others if other != index)):
            model = model_of(weights, pairs, indexes.resolve(name))
            model(asked[:1], state)  # the index is built
            before = time.thread_time()
            outputs, after = model(asked, state)
            found["us per cue"][name] = (time.thread_time() - before) / len(asked) * 1e6
            found["bits wrong"][name] = int(((outputs > 0) != wanted).sum())
            found.setdefault("index used", {})[name] = after.index_used[0]
            yield found


def us_per_step(model: Any, inputs: torch.Tensor, state: Any) -> float:
    """Processor time of a step from there.

    With euclidean similarity exact search scores every word, as all exact search did once.
    """
    begin = time.thread_time()
    model(inputs, state)
    return (time.thread_time() - begin) / len(inputs) * 1e6


def whole(pairs: int, cues: int, seeds: Sequence[int], names: Sequence[str]) -> dict[str, list[int]]:
    """Bits wrong with each index used from the first pair to the last cue."""
    wrong: dict[str, list[int]] = {name: [] for name in names}
    for seed in seeds:
        for name in names:
            *_, last = sequence(pairs, name, seed, cues)
            wrong[name].append(last["bits wrong"][name])
    return wrong


def babi(names: Sequence[str], stories: int) -> dict[str, Any]:
    """Loss and share of wrong questions of the shipped SDNC with each index, on the longest test stories."""
    found: dict[str, Any] = {}
    for name in names:
        model, task, _ = load_model(SDNC_WEIGHTS, engine="native", index=name)
        encoded = task.test
        longest = np.argsort(-encoded.lengths, kind="stable")[:stories]
        batch = encoded.batch(longest, task.scale)
        with torch.no_grad():
            outputs, _ = model.eval()(batch.inputs, lengths=batch.lengths)
        found[name] = {"loss": float(task.loss(outputs, batch)), **task.errors(outputs, batch)}
    return found
