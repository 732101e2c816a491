"""A record: what the runs of an experiment reached, as JSON that the results pages are made from.

    {"schema": 1, "claim": ..., "protocol": ..., "differences": [...], "commands": [...], "runs": {name: {...}}}

A run names its command, commit, machine, versions, model, seed, minibatches and seconds, how it ended, the error on
validation as it went (`curve`), and what was tested after it had ended; one with a curriculum the level it reached and
after how many seconds (`levels`). A further command adds its runs to the file.

A benchmark's record has the same head and, in place of runs of a recipe, what it measured. Records of before have null
where nothing was noted, and what fits no key under names of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sparsam.lab.recipes.experiment import Experiment
from sparsam.lab.training import checkpoint
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.folder import RunFolder

__all__ = ["KEYS", "RUN_KEYS", "check", "text", "write"]

KEYS = ("schema", "claim", "protocol", "differences", "commands")
RUN_KEYS = ("command", "commit", "machine", "versions", "model", "seed", "minibatches", "seconds", "ended", "error",
            "curve", "tests")  # fmt: skip
_GAP = re.compile(r",\n\s+")
TESTS = ("validation", "test", "tests")  # files of a run's folder that a report writes


def write(file: str | Path, experiment: Experiment, out: str | Path, command: str) -> dict[str, Any]:
    """Put the runs of `experiment` that have ended under `out` into the record `file`, and return it.

    Raises:
        ValueError: when a run was trained with other settings than the experiment's, or none has ended; where the
            experiment counts runs that were cut off, none has a checkpoint.
    """
    file, out = Path(file), Path(out)
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"commands": [], "runs": {}}
    runs = {}
    for name, config in experiment.runs.items():
        folder = experiment.folder(out / name)
        if experiment.counts(folder):
            _refuse_other_settings(experiment, folder.config(), config, name)
            runs[name] = _run(folder, command) | experiment.details(folder)
    if not runs:
        raise ValueError(f"{out} holds no run of {experiment.name} that has ended")
    record = found | {
        "schema": 1,
        "claim": experiment.claim,
        "protocol": experiment.protocol,
        "differences": list(experiment.differences),
        "commands": [*(entry for entry in found["commands"] if entry != command), command],
        "runs": found["runs"] | runs,
    }
    if experiment.beside is not None:
        record |= experiment.beside(out)
    check(record)
    write_atomic(file, text(record).encode())
    return record


def text(record: dict[str, Any]) -> str:
    """A record as JSON, with lists of plain values on one line each."""
    lines = json.dumps(record, indent=1, ensure_ascii=False)
    return re.sub(r"\[\n\s+([^][{}]*?)\n\s+\]", lambda found: f"[{_GAP.sub(', ', found[1])}]", lines) + "\n"


def check(record: dict[str, Any]) -> None:
    """Raises ValueError naming what a record lacks."""
    missing = [key for key in KEYS if key not in record]
    missing += [key for key in ("claim", "protocol", "commands") if key in record and not record[key]]
    runs = record.get("runs", {})  # a benchmark's are a list, in a form of its own
    for name, run in runs.items() if isinstance(runs, dict) else ():
        missing += [f"runs.{name}.{key}" for key in RUN_KEYS if key not in run]
        if run.get("command") not in record.get("commands", []):
            missing.append(f"commands: {run.get('command')!r}, which {name} names")
    if missing:
        raise ValueError(f"record: expected {', '.join(missing[:6])}, got none")


def _run(folder: RunFolder, command: str) -> dict[str, Any]:
    config, result, origin = folder.config(), folder.result() or _cut_off(folder), folder.origin() or {}
    headline = next(iter(result.get("evaluation", {})), "loss")
    tests = {name: folder.path / f"{name}.json" for name in TESTS}
    return {
        "command": command,
        "commit": origin.get("commit"),
        "machine": origin.get("machine"),
        "versions": origin.get("versions"),
        "model": config.model.name,
        "seed": config.seed,
        "minibatches": result.get("step"),
        "seconds": result.get("seconds"),
        "ended": result.get("reason"),
        "error": headline,
        "curve": [[event["step"], round(event[headline], 5)] for event in folder.events("eval") if headline in event],
        "tests": {name: json.loads(path.read_text()) for name, path in tests.items() if path.exists()},
    }


def _cut_off(folder: RunFolder) -> dict[str, Any]:
    """How far a run came that has not ended: to its newest checkpoint."""
    step = max(checkpoint.whole_steps(folder.checkpoints))
    seconds = [event["seconds"] for event in folder.events("train") if event["step"] <= step]
    return {"step": step, "seconds": seconds[-1] if seconds else None, "reason": "cut off"}


def _refuse_other_settings(experiment: Experiment, found: Any, wanted: Any, name: str) -> None:
    """A record's command must be what made its runs; where a run was carried out does not matter, nor where the
    experiment kept what its runs begin with."""
    ours, theirs = found.decisive(), wanted.decisive()
    other = [key for key in ours if ours[key] != theirs[key] and not (key == "weights" and experiment.prepare)]
    if other:
        raise ValueError(f"{name}: expected the settings of this command, got a run with another {', '.join(other)}")
