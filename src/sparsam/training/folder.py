"""A run's folder: what was run, with what, and what came out.

config.json      the complete config, seed included
origin.json      versions, command, start time, data; the same of a resumption where they had changed
log.jsonl        one event per line: train, level, eval, memory, end
checkpoints/     see checkpoint.py
result.json      how the run ended, with its last evaluation
tensorboard/     the same numbers for TensorBoard
.lock            who is at work here, see lock.py
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from sparsam.training import checkpoint
from sparsam.training.config import RunConfig
from sparsam.training.files import write_atomic
from sparsam.training.lock import NAME as LOCK

_FILES = ("config.json", "origin.json", "log.jsonl", "log-before.jsonl", "result.json")
_FOLDERS = ("checkpoints", "tensorboard")


class RunFolder:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.config_file = self.path / "config.json"
        self.origin_file = self.path / "origin.json"
        self.log_file = self.path / "log.jsonl"
        self.result_file = self.path / "result.json"
        self._made: list[Path] = []

    def exists(self) -> bool:
        return self.config_file.exists()

    def make(self) -> None:
        """Make the folder itself, and remember what of its path was not there, for `discard`."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self._made = missing

    def create(self, config: RunConfig, data: str | None = None) -> None:
        """Write what is known before the first minibatch. An existing run is not overwritten."""
        self.refuse_existing()
        if not self.path.is_dir():
            self.make()
        self.write_origin(origin(data))
        self.write_config(config)

    def refuse_existing(self) -> None:
        if self.exists():
            raise FileExistsError(
                f"{self.path} already holds a run; resume it, choose another folder, or replace it with --force"
            )

    def clear(self) -> None:
        """Take away all that a run leaves here, and nothing else. The config goes first: without it this is no run."""
        for name in (*_FILES, *_FOLDERS):
            if (self.path / name).is_dir():
                shutil.rmtree(self.path / name)
            else:
                (self.path / name).unlink(missing_ok=True)

    def discard(self, files: bool) -> None:
        """Leave things as they were before `make`, with `files` those of the run as well."""
        try:
            if files:
                self.clear()
            if self._made:
                (self.path / LOCK).unlink(missing_ok=True)
            for folder in self._made:
                folder.rmdir()
        except OSError:
            pass  # somebody else put something here; the error that led here is the one to tell

    def write_config(self, config: RunConfig) -> None:
        write_atomic(self.config_file, config.to_json().encode())

    def config(self) -> RunConfig:
        if not self.exists():
            raise FileNotFoundError(f"{self.path} holds no run (no config.json)")
        return RunConfig.load(self.config_file)

    def write_origin(self, values: dict[str, Any]) -> None:
        write_atomic(self.origin_file, (json.dumps(values, indent=2) + "\n").encode())

    def origin(self) -> dict[str, Any] | None:
        """What is known of where the run came from; None, with a warning, when that cannot be read."""
        return _read_json(self.origin_file)

    def write_result(self, result: dict[str, Any]) -> None:
        write_atomic(self.result_file, (json.dumps(result, indent=2) + "\n").encode())

    def result(self) -> dict[str, Any] | None:
        """How the run ended; None when it has not, or (with a warning) when that cannot be read."""
        return _read_json(self.result_file) if self.result_file.exists() else None

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The log so far; a line cut short by a crash is left out."""
        events = [event for _, event in read_log(self.log_file)]
        return [event for event in events if kind is None or event.get("kind") == kind]


def read_log(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Lines that are events, each with what it says; others are passed over."""
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().decode("utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("step", 0), int):
            found.append((line, event))
    return found


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_bytes())
        if isinstance(values, dict):
            return values
        problem = f"expected an object, got {type(values).__name__}"
    except (OSError, ValueError, RecursionError) as error:
        problem = str(error)
    warnings.warn(f"{path} cannot be read ({problem}); going on without it", stacklevel=3)
    return None


def versions() -> dict[str, str]:
    """What results may depend on besides config and seed."""
    from importlib.metadata import PackageNotFoundError, version

    import numpy

    try:
        own = version("sparsam")
    except PackageNotFoundError:
        own = "unknown"
    return {
        "sparsam": own,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def origin(data: str | None = None) -> dict[str, Any]:
    """Versions, command and time: what a config does not say about where a result came from."""
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "data": data,
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda,
        },
    }


def newest_config(folder: RunFolder) -> RunConfig:
    """The config that the newest whole checkpoint carries, for a run whose config.json is damaged."""
    file = checkpoint.newest_weights(folder.checkpoints, older=True)
    text = checkpoint.load_weights(file)[1]
    if text is None:
        raise checkpoint.CheckpointError(f"{file} carries no config")
    return RunConfig.from_json(text)
