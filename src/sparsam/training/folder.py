"""A run's folder: what was run, with what, and what came out.

config.json      the complete config, seed included
origin.json      versions, command, start time
log.jsonl        one event per line: train, level, eval, end
checkpoints/     see checkpoint.py
result.json      how the run ended, with its last evaluation
tensorboard/     the same numbers for TensorBoard
"""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import torch

from sparsam.training import checkpoint
from sparsam.training.config import RunConfig


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.config_file = self.path / "config.json"
        self.log_file = self.path / "log.jsonl"
        self.result_file = self.path / "result.json"

    def exists(self) -> bool:
        return self.config_file.exists()

    def create(self, config: RunConfig) -> None:
        """Write what is known before the first minibatch. An existing run is not overwritten."""
        if self.exists():
            raise FileExistsError(f"{self.path} already holds a run; resume it, or choose another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        checkpoint.write_atomic(self.path / "origin.json", (json.dumps(origin(), indent=2) + "\n").encode())
        self.write_config(config)

    def write_config(self, config: RunConfig) -> None:
        checkpoint.write_atomic(self.config_file, config.to_json().encode())

    def config(self) -> RunConfig:
        if not self.exists():
            raise FileNotFoundError(f"{self.path} holds no run (no config.json)")
        return RunConfig.load(self.config_file)

    def write_result(self, result: dict[str, Any]) -> None:
        checkpoint.write_atomic(self.result_file, (json.dumps(result, indent=2) + "\n").encode())

    def result(self) -> dict[str, Any] | None:
        return json.loads(self.result_file.read_text()) if self.result_file.exists() else None

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The log so far; a line cut short by a crash is left out."""
        if not self.log_file.exists():
            return []
        events = []
        for line in self.log_file.read_text().splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if kind is None or event.get("kind") == kind:
                events.append(event)
        return events


def origin() -> dict[str, Any]:
    """Versions, command and time: what a config does not say about where a result came from."""
    import numpy

    try:
        from importlib.metadata import version

        own = version("sparsam")
    except Exception:
        own = "unknown"
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {
            "sparsam": own,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda,
        },
    }
