"""Naming a run on the command line: its folder, the beginning of its name, or nothing for the last one."""

from __future__ import annotations

import sys
from pathlib import Path

from sparsam import checks
from sparsam.weights import find, names

RUNS = Path("runs")


def find_run(name: str | Path | None, root: Path = RUNS) -> Path:
    """The run that `name` stands for: a path as it is, else the last run whose folder begins with it.

    `copy-sam` and `runs/copy-sam` both find `runs/copy-sam-0`. Without a name, or by the name "last", it is the
    last run in `runs`. A name that no run has can be that of trained weights, such as `babi-sam`.
    Raises FileNotFoundError naming the runs there are.
    """
    if name is not None and Path(name).exists():
        return Path(name)
    name = None if str(name) == "last" else name
    if name is None:
        found = _runs(root, "")
    else:
        path = Path(name)
        found = _runs(path.parent, path.name) or (_runs(root, path.name) if path.parent == Path() else [])
    if not found and str(name) in names():
        return find(str(name))
    if not found:
        known = ", ".join(run.name for run in _runs(root, "")[-8:])
        there = f"; {root} has {known}" if known else f"; {root} has no runs"
        near = "" if name is None else checks.did_you_mean(name, [*(run.name for run in _runs(root, "")), *names()])
        raise FileNotFoundError(f"{name} holds no run{there}{near}" if name is not None else f"no run is named{there}")
    if name is None or len(found) > 1:
        print(f"sparsam: the last run{'' if name is None else f' of {len(found)}'}: {found[-1]}", file=sys.stderr)
    return found[-1]


def _runs(folder: Path, beginning: str) -> list[Path]:
    """Run folders in `folder` whose name begins so, the one that was last at work at the end."""
    if not folder.is_dir():
        return []
    runs = [path for path in folder.iterdir() if path.name.startswith(beginning) and (path / "config.json").is_file()]
    return sorted(runs, key=lambda run: (_last_work(run), run.name))


def _last_work(run: Path) -> float:
    return max(
        (file.stat().st_mtime for file in (run / "config.json", run / "log.jsonl") if file.exists()), default=0.0
    )


def complete(incomplete: str) -> list[str]:
    """Names of runs for the shell's completion."""
    return [run.name for run in _runs(RUNS, incomplete)]


def complete_trained(incomplete: str) -> list[str]:
    """Names of runs and of trained weights, likewise."""
    return complete(incomplete) + [name for name in names() if name.startswith(incomplete)]
