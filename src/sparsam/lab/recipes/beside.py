"""All recall tests in one file: how long each run was trained and what its tests found.

python -m sparsam.lab.recipes.beside runs docs/results                         # writes beside.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILES = ("slices.json", "lengths.json")


def collect(root: str | Path) -> dict[str, Any]:
    """How long each run under `root` was trained and what its tests found; costs where they were measured."""
    found: dict[str, Any] = {}
    for result in sorted(Path(root).glob("*/*/result.json")):
        run = result.parent
        ended = json.loads(result.read_text())
        entry: dict[str, Any] = {key: ended.get(key) for key in ("step", "seconds", "reason", "evaluation")}
        tests: dict[str, Any] = {}
        for file in FILES:
            if (run / file).exists():
                tests |= json.loads((run / file).read_text())
        found.setdefault(run.parent.name, {})[run.name] = entry | {"tests": tests}
    for cost in sorted(Path(root).glob("*/cost*.json")):
        found.setdefault("cost", {})[cost.stem] = json.loads(cost.read_text())
    if not found:
        raise ValueError(f"root: expected a folder with runs that have ended, got {root}")
    return found


def main(arguments: list[str] | None = None) -> None:
    source, target = map(Path, sys.argv[1:] if arguments is None else arguments)
    (target / "beside.json").write_text(json.dumps(collect(source), indent=1) + "\n")


if __name__ == "__main__":
    main()
