"""POPGym, and horizons of up to a million steps."""

from __future__ import annotations

from typing import Any

from pages.pictures import Picture
from pages.tables import Records, about, mean, spread, table

CORES = {
    "sam": "SAM",
    "sdnc": "SDNC",
    "layer": "2 SparseMemory layers",
    "gru": "GRU",
    "lstm": "LSTM",
    "ffm": "FFM",
    "frames": "MLP, 8 frames",
    "sam-feedforward": "SAM, feed-forward",
}
COMPARED = tuple(CORES)[:-1]
AT_HORIZONS = ("sam-feedforward", "sam", "layer", "gru", "lstm", "ffm")
LAST = "1000000"  # steps of the longest test


def _runs(record: dict[str, Any], core: str, environment: str | None = None) -> list[dict[str, Any]]:
    return [r for r in record["runs"].values() if r["model"] == core and environment in (None, r["environment"])]


def _returns(record: dict[str, Any], core: str, environment: str) -> list[float]:
    """The maximum mean episodic return of each seed."""
    return [max(point[1] for point in run["curve"]) for run in _runs(record, core, environment)]


def _environments(record: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(run["environment"] for run in record["runs"].values()))


def _mean(record: dict[str, Any], core: str) -> float:
    return mean([mean(_returns(record, core, environment)) for environment in _environments(record)])


def _shares(record: dict[str, Any], core: str, environment: str, length: str) -> list[float]:
    return [run["tests"]["tests"][length]["share"] for run in _runs(record, core, environment)]


def _seeds(record: dict[str, Any]) -> str:
    counts = {len(_returns(record, core, name)) for core in CORES for name in _environments(record)} - {0}
    return f"{min(counts)} to {max(counts)}" if len(counts) > 1 else str(min(counts))


def pictures(records: Records) -> dict[str, Picture]:
    """Mean return over environment steps."""
    from sparsam.lab.plots.agents import draw

    record = records["results/popgym"]
    curves = {
        name: {CORES[core]: [run["curve"] for run in _runs(record, core, name)] for core in COMPARED}
        for name in _environments(record)
    }
    return {"popgym.png": Picture(curves, draw)}


def values(records: Records) -> dict[str, Any]:
    record, horizon = records["results/popgym"], records["results/popgym_horizon"]
    rows = [[name, *(spread(_returns(record, core, name), 2) for core in COMPARED)] for name in _environments(record)]
    rows.append(["**mean**", *(f"**{_mean(record, core):.2f}**" for core in COMPARED)])
    rows.append(["steps/s over the LSTM's", *(f"{_speed(record, core):.2f}" for core in COMPARED)])
    ours = about(record, "Protocol: ")
    kept = [share for game in ("RepeatFirst", "TMaze") for share in _shares(horizon, "sam-feedforward", game, LAST)]
    means = (f"{CORES[core]} {_mean(record, core):+.2f}" for core in ("sam", "sdnc", "gru", "lstm", "ffm"))
    return {
        **ours,
        "differences": ours["differences"].replace("from the paper", "from POPGym's paper"),
        "seeds": _seeds(record),
        "returns": table(["environment", *(CORES[core] for core in COMPARED)], rows),
        "horizons": _horizons(horizon),
        "horizon": about(horizon, "Protocol: "),
        "mean_returns": ", ".join(means),
        "kept": 100 * mean(kept),
        "kept_seeds": len(kept) // 2,
    }


def _speed(record: dict[str, Any], core: str) -> float:
    """Environment steps per second over the LSTM's, on average over the environments."""
    rates = {
        name: [mean([run["steps_per_second"] for run in _runs(record, which, name)]) for which in (core, "lstm")]
        for name in _environments(record)
    }
    return mean([ours / lstm for ours, lstm in rates.values()])


def _horizons(record: dict[str, Any]) -> str:
    lengths = list(_runs(record, AT_HORIZONS[0])[0]["tests"]["tests"])
    rows = [
        [environment, CORES[core]]
        + [spread([100 * share for share in _shares(record, core, environment, length)], 0) for length in lengths]
        for environment in _environments(record)
        for core in AT_HORIZONS
    ]
    return table(["game", "core", *(f"{int(length):,}" for length in lengths)], rows)
