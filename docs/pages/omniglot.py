"""Omniglot: one-shot classification with up to 500 characters."""

from __future__ import annotations

from math import comb, sqrt
from typing import Any

from pages.tables import Records, about, mean, runs_of, spread, table

MODELS = {"SAM": "sam", "SDNC": "sdnc", "DAM": "dam", "NTM": "ntm", "DNC": "dnc", "LSTM": "lstm"}
SIZES = ("10", "25", "50", "100", "200", "500")


def _runs(records: Records, model: str) -> list[dict[str, Any]]:
    record = records["results/omniglot_pixels"]
    return runs_of(record, f"omniglot-pixels-{model}") or runs_of(record, model)


def _tests(records: Records, model: str, size: str) -> list[dict[str, Any]]:
    mine = [run["tests"]["test"] for run in _runs(records, model)]
    return [test[size] for test in mine if size in test]


def _errors(records: Records, model: str, size: str) -> list[float]:
    return [test["error"] for test in _tests(records, model, size)]


def _over_episodes(records: Records, model: str) -> str:
    """The standard error at 100 characters over the test episodes, mean of the seeds."""
    known = [test for test in _tests(records, model, "100") if "deviation" in test]
    return f"{mean(test['deviation'] / sqrt(test['episodes']) for test in known):.3f}" if known else "-"


def _level(records: Records, model: str) -> str:
    """The level that training reached, of all seeds."""
    levels = sorted({run["level"] for run in _runs(records, model)})
    return " to ".join(map(str, dict.fromkeys((levels[0], levels[-1]))))


def _seen(words: int, characters: int, presentations: int = 10) -> float:
    """The share of steps whose character is among the last `words` drawings: none of its other presentations is with
    the probability that all of them lie elsewhere."""
    others = characters * presentations - 1
    window = [min(step, words) for step in range(others + 1)]
    none = [comb(others - width, presentations - 1) / comb(others, presentations - 1) for width in window]
    return 1 - mean(none)


def values(records: Records) -> dict[str, Any]:
    record = records["results/omniglot_pixels"]
    run = {name: key for name, key in MODELS.items() if _runs(records, key)}
    over_episodes = {key: _over_episodes(records, key) for key in run.values()}
    known = set(over_episodes.values()) != {"-"}  # earlier records do not say
    rows = []
    for name, key in run.items():
        row = [name, *(spread(_errors(records, key, size), 3) for size in SIZES), len(_errors(records, key, "100"))]
        rows.append([*row, over_episodes[key], _level(records, key)] if known else row)
    encoders = [value for name, value in record["neighbours"].items() if name.startswith("encoder")]
    near = [[entry[size]["error"] for entry in encoders if size in entry] for size in SIZES]
    pixels = record["neighbours"]["pixels"]
    none = [""] * (2 * known)
    rows += [
        ["nearest neighbour, encoder", *(spread(found, 3) if found else "-" for found in near), len(encoders), *none],
        ["nearest neighbour, pixels", *(f"{pixels[s]['error']:.3f}" if s in pixels else "-" for s in SIZES), 1, *none],
        ["chance", *(f"{1 - 1 / int(size):.3f}" for size in SIZES), "", *none],
    ]
    hundred, many = (_errors(records, "sam", size) for size in ("100", "500"))
    return {
        **about(record, "Protocol: "),
        "errors": table(["model", *SIZES, "seeds", *(["± over episodes, 100", "level"] if known else [])], rows),
        "seen_twice": f"{1 - _seen(64, 100):.2f}",
        "unseen": f"{1 - _seen(128, 100):.2f}",
        "hundred": spread(hundred, 3),
        "hundred_seeds": len(hundred),
        "many": spread(many, 3),
        "many_seeds": len(many),
        **{key: spread(_errors(records, key, "100"), 2) for key in run.values()},
    }
