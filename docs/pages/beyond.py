"""Results that the paper does not have."""

from __future__ import annotations

from typing import Any

from pages.tables import Records, about, runs_of, spread, table

SLICES = ("4 pairs in 64", "64 pairs in 256", "256 pairs in 1024")
LARGE = "100,000 pairs, 524,288 rows, delta 0.5, K 1"


def _after_three(records: Records) -> list[float]:
    """Error of each seed after the third command, which went on with those that had failed a task."""
    scratch = records["results/babi_from_scratch"]
    runs = {**scratch["again"]["runs"], **scratch["third"]["runs"]}
    return [100 * run["test"]["mean"] for run in runs.values()]


def _copies(records: Records) -> dict[int, dict[str, float]]:
    """Wrong bits by number of items, for each seed."""
    return {
        run["seed"]: {size: test["bits_per_sequence"] for size, test in run["tests"]["tests"].items()}
        for run in runs_of(records["results/copy_lengths"], "copy-sdnc")
    }


def values(records: Records) -> dict[str, Any]:
    beside, copy = records["results/beside"], records["results/copy_lengths"]
    mqar = beside["mqar"]
    names = {
        "SparseMemory": "zoology-memory",
        "attention": "zoology-attention",
        "DeltaNet": "zoology-delta",
        "SAM": "zoology-sam",
        "LSTM": "zoology-lstm",
    }
    rows = []
    for name, key in names.items():
        mine = [run["tests"] for run_name, run in sorted(mqar.items()) if run_name.rpartition("-")[0] == key]
        rows.append([name, *(spread([100 * t[s]["error_rate"] for t in mine], 2) for s in SLICES), len(mine)])
    crowded = mqar["crowded-memory-selective-0"]["tests"]
    large = [
        [size, f"{100 * crowded[size]['error_rate']:.2f}"]
        for size in ("1,000 pairs", "10,000 pairs", LARGE, "100,000 pairs, auto, 524,288 rows, delta 0.5, K 1")
    ]
    copies = [
        [seed, *(f"{bits[size]:.3g}" for size in ("20", "40", "100", "200", "400"))]
        for seed, bits in _copies(records).items()
    ]
    scratch = records["results/babi_from_scratch"]
    again = [100 * run["test"]["mean"] for run in scratch["again"]["runs"].values()]
    first = [100 * run["test"]["mean"] for run in scratch["long"].values() if "test" in run]
    third = _after_three(records)
    return {
        "mixers": table(["mixer", *SLICES, "seeds"], rows),
        "large": table(["test", "wrong, %"], large),
        "many": 100 * crowded[LARGE]["error_rate"],
        "copy": about(copy),
        "copies": table(["seed", "20 items", "40", "100", "200", "400"], copies),
        "worst_copy": max(bits["100"] for bits in _copies(records).values()),
        "copy_seeds": len(copies),
        "sam": 100 * records["results/babi"]["sam-0, retold"]["test"]["mean"],
        "first": spread(first),
        "second": spread(again, 2),
        "third": spread(third, 2),
        "third_seeds": len(third),
        "sdnc": 100 * records["results/babi"]["sdnc-0, from scratch"]["test"]["mean"],
    }
