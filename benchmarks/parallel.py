"""What parallel training gains: sequences per second, and the time to learn copy, by the number of processes.

    python -m benchmarks.parallel --processes 1 2 --out runs/bench

One process is plain `sparsam train`. Then `--workers N` (asynchronous updates of shared parameters) and `torchrun`
(every step together, each process with a minibatch of its own), one thread per process. Rates are those of copy with 1
to 20 items (a minibatch takes a few milliseconds, an exchange of gradients is felt) and with exactly 200 items. A run
counts as solved at its first evaluation below 0.1 bits per sequence. Rates leave out the time that processes take to
start; the time to solve has it in.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import Line, Report
from sparsam.lab.recipes.figure2 import figure2
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.folder import RunFolder

FORMS = ("workers", "torchrun")
ITEMS = {"1 to 20": (1, 20), "200": (200, 200)}


def run(
    out: Path, processes: list[int], seconds: float, seeds: int, limit: float, forms: tuple[str, ...] = FORMS
) -> Report:
    """Time every form with every number of processes; print, and write parallel.json after each."""
    report = Report("parallel")
    with tempfile.TemporaryDirectory() as scratch:
        for count in processes:
            for form in forms if count > 1 else ("alone", *(form for form in forms if form == "workers")):
                rates = {name: throughput(form, count, seconds, Path(scratch), name) for name in ITEMS}
                report.raw[f"{form} {count}"] = {"sequences per second": rates}
                for name, rate in rates.items():
                    report.add(Line(f"{form}, {count}: copy of {name} items, SAM, B = 8", rate, "sequences/s"))
                solved = [time_to_solve(form, count, seed, limit, Path(scratch)) for seed in range(seeds)]
                report.raw[f"{form} {count}"]["solved"] = solved
                done = [entry["seconds"] for entry in solved if entry["seconds"] is not None]
                if done:
                    figure = f"{form}, {count}: copy below 0.1 bits ({len(done)} of {seeds} seeds)"
                    report.add(Line(figure, statistics.median(done), "s"))
                report.write(out)
    print(report.table())
    return report


def throughput(form: str, count: int, seconds: float, scratch: Path, items: str) -> float:
    """Sequences per second of a run that does nothing but train, without its first quarter."""
    low, high = ITEMS[items]
    config = copy_config(0, seconds).with_settings(
        [
            "eval_every=1000000",
            "checkpoint_every=1000000",
            "log_every=10",
            f"task.settings.min_size={low}",
            f"task.settings.max_size={high}",
        ]
    )
    folder = launch(form, count, config, scratch / f"{form}-{count}-{high}-rate", seconds + 60)
    events = folder.events("train")
    if len(events) < 2:
        raise RuntimeError(f"{form} with {count} processes logged too little in {seconds:g} s")
    first, last = events[len(events) // 4], events[-1]
    return (last["sequences"] - first["sequences"]) / (last["seconds"] - first["seconds"])


def time_to_solve(form: str, count: int, seed: int, limit: float, scratch: Path) -> dict[str, Any]:
    """Seconds and sequences until copy is solved; None where it was not within `limit`."""
    config = copy_config(seed, limit).with_settings(["stop_below=0.1", "checkpoint_every=1000000"])
    folder = launch(form, count, config, scratch / f"{form}-{count}-{seed}", limit + 60)
    result = folder.result() or {}
    solved = result.get("reason") == "solved"
    return {
        "seed": seed,
        "seconds": result["seconds"] if solved else None,
        "sequences": result.get("sequences"),
        "bits_per_sequence": result.get("evaluation", {}).get("bits_per_sequence"),
    }


def copy_config(seed: int, seconds: float) -> RunConfig:
    """Figure 2's run of SAM on copy."""
    config = figure2(seeds=seed + 1, tasks=["copy"], models=["sam-linear"]).runs[f"copy-sam-linear-{seed}"]
    return config.with_settings(
        [f"seconds={seconds}", "steps=1000000", "eval_batches=4", "tensorboard=false", "threads=1"]
    )


def launch(form: str, count: int, config: RunConfig, folder: Path, timeout: float) -> RunFolder:
    """Train `config` in a process (or `count` of them) of its own."""
    if form == "workers":
        config = config.with_settings([f"workers={count}"])
    file = folder.with_suffix(".json")
    file.write_text(config.to_json())
    command = ["-m", "sparsam.lab.cli", "train", "--config", str(file), "--out", str(folder), "--quiet"]
    if form == "torchrun":
        command = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "--standalone", *command]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=timeout, env=environment)
    if done.returncode:
        raise RuntimeError(f"{form} with {count} processes failed:\n{done.stderr[-2000:]}")
    return RunFolder(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parallel", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--seconds", type=float, default=10.0, help="of training for each reading of the rate")
    parser.add_argument("--seeds", type=int, default=3, help="runs for the time to solve; 0 leaves it out")
    parser.add_argument("--limit", type=float, default=120.0, help="most seconds of such a run")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    given = parser.parse_args()
    run(given.out, given.processes, given.seconds, given.seeds, given.limit, tuple(given.forms))


if __name__ == "__main__":
    main()
