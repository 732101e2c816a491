"""Recall against time: every index over one set of words at several settings.

The index stands by itself here, full of words, asked what the model asks: four heads at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparsam
from benchmarks.trained_words import Written, recall_by_head
from sparsam import indexes
from sparsam.engines.native.core import core_settings

CHANGES = 5_000
# Words from which on there are cells, in a long call and in a pre-loaded memory (csrc/index/growing_cells.h, cells.h).
FEWEST_IN_CELLS = {"scan, long call": sparsam.Scan().cells_from, "scan, pre-loaded": 65_536}
LONG_CALL = 2_048  # steps
# The settings of a curve; the default is one of them. "pre-loaded": of words that do not change.
CURVES: dict[str, list[indexes.Index]] = {
    "scan": [sparsam.Scan(checks=n) for n in (4, 8, 16, 32, 64, 96, 192)],
    "scan, long call": [sparsam.Scan(reach=n) for n in (20, 30, 40, 50, 58, 70)],
    "scan, pre-loaded": [sparsam.Scan(reach=n) for n in (20, 30, 40, 50, 58, 70)],
    "LSH": [sparsam.LSH(few=indexes.LARGEST, checks=n) for n in (256, 1_024, 4_096, 8_192, 12_288, 20_480)],
    "LSH in tables": [sparsam.LSH(few=8_192, probes=n, checks=max(32, n // 2)) for n in (48, 192, 768, 3_072, 12_288)],
    "k-d forest": [sparsam.KDForest(checks=n) for n in (32, 128, 512, 2_048, 8_192, 20_480)],
}
DEFAULTS = {
    "scan": sparsam.Scan(),
    "scan, long call": sparsam.Scan(),
    "scan, pre-loaded": sparsam.Scan(),
    "LSH in tables": sparsam.LSH(),
    "k-d forest": sparsam.KDForest(),
}


def points(data: Written) -> Iterator[dict[str, Any]]:
    """One finding after the other, index by index."""
    for name, settings in CURVES.items():
        if len(data.words) < FEWEST_IN_CELLS.get(name, 0):
            continue
        for index in settings:
            found = on_written(data, index, name.endswith("pre-loaded"), name.endswith("long call"))
            yield {"curve": name, "default": index == DEFAULTS.get(name), **found}


def on_written(data: Written, index: indexes.Index, frozen: bool = False, long: bool = False) -> dict[str, Any]:
    """An index by itself over words that a trained model wrote, asked what that model asks."""
    from sparsam import _native

    settings = core_settings(index)
    assert settings is not None  # exact search has no structure to build
    made = _native.ArrayIndex(data.words, settings)
    rows = np.arange(len(data.words), dtype=np.int32)
    build = _seconds(lambda: made.build(rows, 1))
    if frozen:
        build += _seconds(lambda: made.freeze(1))
    if long:
        build += _seconds(lambda: made.start(LONG_CALL))
    shares = recall_by_head(made, data)
    found: dict[str, Any] = {
        "setting": repr(index),
        "words": len(data.words),
        "recall of K by head": shares,
        "recall of K": float(np.mean(shares)),
        "us per step, all heads": us_each(
            lambda some: made.nearest(np.ascontiguousarray(some.reshape(-1, data.words.shape[1])), data.heads),
            np.array_split(data.queries, 4),
        ),
        "seconds to build": build,
        "bytes per word": made.bytes / len(data.words),
    }
    if not frozen:
        changed = np.random.default_rng(3).permutation(len(data.words))[:CHANGES].astype(np.int32)
        found["us insert + remove"] = us_each(made.churn, np.array_split(changed, 5))
        found["us update"] = us_each(made.update_all, np.array_split(changed, 5))
    return found


def us_each(call: Callable[[Any], object], passes: list[np.ndarray]) -> float:
    """Microseconds for each of a pass's items, median over the passes.

    Processor time of one thread: other work on the machine does not count.
    """
    times = []
    for items in passes:
        begin = time.thread_time()
        call(items)
        times.append((time.thread_time() - begin) / len(items) * 1e6)
    return float(np.median(times))


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
