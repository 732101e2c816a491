"""Our indexes beside other people's."""

from __future__ import annotations

from typing import Any

from pages.tables import Records, count, table, wrapped

OURS = ("exact", "auto", "lsh", "kdtree")
HIDDEN = ("ef = 32", "expansion = 32", "probed = 512")  # settings that only the record has


def values(records: Records) -> dict[str, Any]:
    record = records["bench/libraries"]
    points: dict[str, Any] = record["raw"]["points"]
    names = dict.fromkeys(
        point["name"] for some in points.values() for point in some if not point["name"].endswith(HIDDEN)
    )
    rows = []
    for name in names:
        row = [f"**{name}**" if name in OURS else name.replace(" lists, probed = ", " lists, ").replace(" = ", " ")]
        for some in points.values():
            here = [point for point in some if point["name"] == name]
            row.append(f"{count(here[0]['us'])} ({here[0]['recall']:.2f})" if here else None)
        rows.append(row)
    times: dict[str, list[str]] = {}
    for line in record["lines"]:
        if " over it, trained, " in line["figure"]:
            name, words = line["figure"].partition(": ")[0], line["figure"].rpartition("trained, ")[2]
            times.setdefault(words, []).append(f"{name} {line['reached']:.1f}")
    faster = "; ".join(f"{', '.join(each)} ({words})" for words, each in times.items())
    ratios = (
        "On trained words, the fastest library with at least the same recall takes this many times as long (target: 5)"
    )
    return {
        "protocol": wrapped(record["protocol"].split(" The libraries come")[0]),
        "times": table(["", *points], rows),
        "ratios": wrapped(f"{ratios}: {faster}"),
        "busy": _busy(points),
        "machine": record["machine"]["processor"],
    }


def _busy(points: dict[str, Any]) -> str:
    used = [point["others used, cores"] or 0.0 for some in points.values() for point in some]
    return f"Other processes used up to {max(used):.1f} cores meanwhile. " if max(used) > 0.15 else ""
