"""POPGym, and horizons of up to a million steps."""

from __future__ import annotations

from typing import Any

from sparsam.lab.pages.pictures import Picture
from sparsam.lab.pages.tables import Claim, Records, differences, mean, shell, spread, table, wrapped

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


def claims(records: Records) -> list[Claim]:
    record, horizon = records["results/popgym"], records["results/popgym_horizon"]
    kept = _shares(horizon, "sam-feedforward", "RepeatFirst", LAST) + _shares(horizon, "sam-feedforward", "TMaze", LAST)
    return [
        Claim(
            "POPGym, mean return over 7 environments",
            "",
            ", ".join(f"{CORES[core]} {_mean(record, core):+.2f}" for core in ("sam", "sdnc", "gru", "lstm", "ffm")),
            _seeds(record),
            "",
            "popgym",
            in_readme=False,
        ),
        Claim(
            "T-Maze and RepeatFirst of 1,000,000 steps, trained on 100",
            "",
            f"SAM has {100 * mean(kept):.0f}% of the return",
            str(len(kept) // 2),
            "",
            "popgym",
            in_readme=False,
        ),
    ]


def pictures(records: Records) -> dict[str, Picture]:
    """Mean return over environment steps."""
    from sparsam.lab.plots.agents import draw

    record = records["results/popgym"]
    curves = {
        name: {CORES[core]: [run["curve"] for run in _runs(record, core, name)] for core in COMPARED}
        for name in _environments(record)
    }
    return {"popgym.png": Picture(curves, draw)}


def page(records: Records) -> str:
    record, horizon = records["results/popgym"], records["results/popgym_horizon"]
    rows = [[name, *(spread(_returns(record, core, name), 2) for core in COMPARED)] for name in _environments(record)]
    rows.append(["**mean**", *(f"**{_mean(record, core):.2f}**" for core in COMPARED)])
    rows.append(["steps/s over the LSTM's", *(f"{_speed(record, core):.2f}" for core in COMPARED)])
    return f"""# POPGym: agents that must remember

Seven cores with the same number of parameters in the same PPO loop, on environments of
[POPGym](https://openreview.net/forum?id=chDrutUTs0K) (Morad et al., 2023).

Maximum mean episodic return, mean ± standard deviation over {_seeds(record)} seeds:

{table(["environment", *(CORES[core] for core in COMPARED)], rows)}

Only the cores with an external memory solve RepeatFirst. That gives SAM the highest mean, closely followed by SDNC and FFM.
Elsewhere FFM learns fastest, and SAM and SDNC are level with the GRU and the LSTM or a little below: a million steps are
too few for any core to replay a deck or to repeat a card from 64 steps ago.

![learning curves](popgym.png)

{shell(record["commands"])}

{wrapped("Protocol: " + record["protocol"])}

{differences(record).replace("from the paper", "from POPGym's paper")}

## A million steps

Agents that were trained at horizons of 2 to 100 steps, tested at longer ones. Share of the largest return, per cent:

{_horizons(horizon)}

SAM with a feed-forward controller keeps the cue in the memory and nowhere else. In one of its three seeds on RepeatFirst,
PPO unlearned one card just before training ended, which shows at every length. An LSTM holds one cue for as long. SAM with
its LSTM controller, SparseMemory, the GRU and FFM lose it beyond the lengths that they were trained at.

{shell(horizon["commands"])}

{wrapped("Protocol: " + horizon["protocol"])}

Records: `docs/results/popgym.json`, `docs/results/popgym_horizon.json`. What was tried stands in the
[notebook](../notebook/popgym.md).
"""


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
