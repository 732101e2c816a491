"""Omniglot: one-shot classification with up to 500 characters."""

from __future__ import annotations

from math import comb, sqrt
from typing import Any

from pages.tables import Records, about, mean, runs_of, spread, table

MODELS = {"SAM": "sam", "SDNC": "sdnc", "DAM": "dam", "NTM": "ntm", "DNC": "dnc", "LSTM": "lstm"}
SIZES = ("10", "25", "50", "100", "200", "500")
BEFORE = 16  # episodes of records that do not say how many


def _runs(records: Records, model: str) -> list[dict[str, Any]]:
    record = records["results/omniglot_pixels"]
    return runs_of(record, f"omniglot-pixels-{model}") or runs_of(record, model)


def _tests(records: Records, model: str, size: str) -> list[dict[str, Any]]:
    mine = [run["tests"]["test"] for run in _runs(records, model)]
    return [test[size] for test in mine if size in test]


def _errors(records: Records, model: str, size: str) -> list[float]:
    return [test["error"] for test in _tests(records, model, size)]


def _presented(tests: list[dict[str, Any]], number: int) -> list[float]:
    return [test["by_presentation"][number - 1] for test in tests if "by_presentation" in test]


def _at_hundred(records: Records, name: str, model: str) -> list[Any]:
    """A model's row of what its error at 100 characters is made of."""
    tests = _tests(records, model, "100")
    runs = _runs(records, model)
    known = [test["deviation"] / sqrt(test["episodes"]) for test in tests if "deviation" in test]
    levels = sorted({run["level"] for run in runs if run.get("level")})
    steps = sorted({run["minibatches"] for run in runs})
    return [
        name,
        " to ".join(map(str, dict.fromkeys((levels[0], levels[-1])))) if levels else "-",
        " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))),
        tests[0].get("episodes", BEFORE),
        f"{mean(known):.3f}" if known else "-",
        *(spread(found, 3) if (found := _presented(tests, number)) else "-" for number in (2, 5, 10)),
    ]


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
    rows = [
        [name, *(spread(_errors(records, key, size), 3) for size in SIZES), len(_errors(records, key, "100"))]
        for name, key in run.items()
    ]
    encoders = [value for name, value in record["neighbours"].items() if name.startswith("encoder")]
    near = [[entry[size]["error"] for entry in encoders if size in entry] for size in SIZES]
    pixels = record["neighbours"]["pixels"]
    rows += [
        ["nearest neighbour, encoder", *(spread(errors, 3) if errors else "-" for errors in near), len(encoders)],
        ["nearest neighbour, pixels", *(f"{pixels[s]['error']:.3f}" if s in pixels else "-" for s in SIZES), 1],
        ["chance", *(f"{1 - 1 / int(size):.3f}" for size in SIZES), ""],
    ]
    hundred, many = (_errors(records, "sam", size) for size in ("100", "500"))
    head = ["model", "level", "minibatches", "episodes", "standard error over episodes", "2nd", "5th", "10th"]
    return {
        **about(record, "Protocol: "),
        "errors": table(["model", *SIZES, "seeds"], rows),
        "at_hundred": table(head, [_at_hundred(records, name, key) for name, key in run.items()]),
        "seen": f"{_seen(128, 100):.2f}",
        "seen_twice": f"{1 - _seen(64, 100):.2f}",
        "unseen": f"{1 - _seen(128, 100):.2f}",
        "hundred": spread(hundred, 3),
        "hundred_seeds": len(hundred),
        "many": spread(many, 3),
        "many_seeds": len(many),
        **{key: spread(_errors(records, key, "100"), 2) for key in run.values()},
    }
