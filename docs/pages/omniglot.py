"""Omniglot: one-shot classification with up to 500 characters."""

from __future__ import annotations

from typing import Any

from pages.tables import Records, about, runs_of, spread, table

MODELS = {"SAM": "sam", "SDNC": "sdnc", "DAM": "dam", "NTM": "ntm", "LSTM": "lstm"}


def _errors(records: Records, model: str, size: str) -> list[float]:
    mine = [run["tests"]["test"] for run in runs_of(records["results/omniglot_pixels"], model)]
    return [test[size]["error"] for test in mine if size in test]


def values(records: Records) -> dict[str, Any]:
    record = records["results/omniglot_pixels"]
    sizes = ("10", "25", "50", "100", "200", "500")
    rows = [
        [name, *(spread(_errors(records, key, size), 3) for size in sizes), len(_errors(records, key, "100"))]
        for name, key in MODELS.items()
    ]
    encoders = [value for name, value in record["neighbours"].items() if name.startswith("encoder")]
    near = [[entry[size]["error"] for entry in encoders if size in entry] for size in sizes]
    pixels = record["neighbours"]["pixels"]
    rows += [
        ["nearest neighbour, encoder", *(spread(errors, 3) if errors else "-" for errors in near), len(encoders)],
        ["nearest neighbour, pixels", *(f"{pixels[s]['error']:.3f}" if s in pixels else "-" for s in sizes), 1],
        ["chance", *(f"{1 - 1 / int(size):.3f}" for size in sizes), ""],
    ]
    hundred, many = (_errors(records, "sam", size) for size in ("100", "500"))
    return {
        **about(record, "Protocol: "),
        "errors": table(["model", *sizes, "seeds"], rows),
        "hundred": spread(hundred, 3),
        "hundred_seeds": len(hundred),
        "many": spread(many, 3),
        "many_seeds": len(many),
        "dam": spread(_errors(records, "dam", "100"), 2),
    }
