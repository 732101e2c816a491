"""Figure 1: time and memory of a step over the size of the memory."""

from __future__ import annotations

from typing import Any

from pages.tables import Records, count, table

NTM = "NTM step over SAM step"
RATIO = "SAM over nn.LSTM, B 8, T 100, 2 threads"


def _over_sam(records: Records, what: str) -> float:
    """NTM's step over SAM's at a million words, by those of the two readings of each that favour SAM least."""
    read = records["bench/speed"]["raw"]
    steps, curves = read["us per step"], read["curves"]
    ntm = [steps["NTM 1,000,000"], 1e3 * curves["NTM"]["1000000"]]
    blank = [steps["SAM 1,000,000"], 1e3 * curves["SAM"]["1000000"]]
    ratio: float = min(ntm) / (steps["SAM filled 1,000,000"] if what == "filled" else max(blank))
    return ratio


def _lines(records: Records, bench: str) -> str:
    rows = []
    for line in records[f"bench/{bench}"]["lines"]:
        name, reached = line["figure"], line["reached"]
        if name.startswith(NTM):
            reached = _over_sam(records, "filled" if "filled" in name else "blank")
        shown = f"{reached:,.3g}" if reached < 1000 else count(reached)
        rows.append([name, shown, line["unit"], line["paper"] or "-"])
    return table(["figure", "measured", "unit", "the paper"], rows)


def values(records: Records) -> dict[str, Any]:
    read = records["bench/speed"]["raw"]
    steps, ratio = read["us per step"], records.figure("ratios", RATIO)
    return {
        "speed": _lines(records, "speed"),
        "memory": _lines(records, "memory"),
        "sdnc": _lines(records, "sdnc"),
        "machine": records["bench/speed"]["machine"],
        "lines_read": steps["NTM 1,000,000"] / 1e6,
        "curve_read": read["curves"]["NTM"]["1000000"] / 1e3,
        "ntm_over_full_sam": count(_over_sam(records, "filled")),
        "approximate": count(records.figure("ann", "NTM step over that step")),
        "approximate_over_lstm": records.figure("ann", "full 1,000,000 words: step over nn.LSTM step, 8 threads"),
        "recall": records.figure("ann", "full 1,000,000 words: recall@K"),
        "bytes": count(records.figure("memory", "NTM bytes over SAM bytes")),
        "kept": records.figure("memory", "SAM bytes kept per step"),
        "larger": records.figure("speed", "SAM step at N = 1,000,000"),
        "full": count(steps["SAM filled 1,000,000"] / steps["SAM 1,000,000"]),
        "ratio": ratio,
        # Of two benchmarks, the reading that favours SAM least.
        "over_lstm": max(records.figure("speed", "SAM step, N = 1,000,000 blank"), ratio),
    }
