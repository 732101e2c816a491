"""The supplement's extrapolation: trained on at most 10,000 pairs, asked after 200,000."""

from __future__ import annotations

from typing import Any

from pages.tables import Records, about, count, shell, table

CUES = "exact, 256 cues"


def values(records: Records) -> dict[str, Any]:
    record = records["results/extrapolation"]
    wide, narrow = record["wide"], record["bits_per_cue"]
    sizes = ("10000", "50000", "100000", "200000")

    def cell(errors: dict[str, float], deviations: dict[str, float], size: str, digits: int) -> str:
        return f"{errors[size]:.{digits}f} ± {deviations[size]:.{digits}f}" if size in errors else "-"

    columns = [
        (wide[f"bits per cue, {CUES}"], wide["standard error"], 1),
        (narrow[f"near keys, {CUES}"], narrow[f"near keys, {CUES}, standard error"], 2),
        (narrow[CUES], narrow[f"{CUES}, standard error"], 2),
        (narrow[f"trained with LSH, {CUES}"], narrow[f"trained with LSH, {CUES}, standard error"], 2),
    ]
    rows = [[count(int(size)), *(cell(errors, sd, size, digits) for errors, sd, digits in columns)] for size in sizes]
    heads = ["pairs", "values of 96 bits", "16 bits, near keys", "16 bits", "16 bits, trained with LSH"]
    return {
        **about(record, "Protocol: "),
        "commands": shell([wide["command"], wide["test"]]),
        "errors": table(heads, rows),
        "chance": wide["chance"],
        "minibatches": count(wide["minibatches"]),
        "seconds": count(wide["seconds"]),
        "wide": columns[0][0]["200000"],
        "narrow": columns[1][0]["200000"],
    }
