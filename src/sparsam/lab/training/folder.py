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
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.lock import NAME as LOCK
from sparsam.model_description import LARGEST_TEXT, parsed
from sparsam.weights import read_plain

_FILES = ("config.json", "origin.json", "log.jsonl", "log-before.jsonl", "result.json")
_NO_ERRORS = {"kind", "step", "level", "seconds", "sequences", "loss"}
_LARGEST_NUMBER = 1e300  # NaN and infinity are none
_LARGEST_LOG = 1 << 26
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

    def points(self, kind: str, measure: str, against: str = "sequences") -> list[tuple[float, float]]:
        """The numbers of `measure` over `against` that the log has; lines without the two are left out."""
        pairs = [(event.get(against), event.get(measure)) for event in self.events(kind)]
        return [(x, y) for x, y in pairs if is_number(x) and is_number(y)]  # type: ignore[misc]

    def measures(self, kind: str = "eval") -> list[str]:
        """What the first event of a kind has numbers of, besides those of every event: a task's errors."""
        first = next(iter(self.events(kind)), {})
        return [key for key, value in first.items() if key not in _NO_ERRORS and is_number(value) and is_name(key)]


def is_name(text: str) -> bool:
    """Whether a text can stand in a picture: short, of letters that there are, and no formula."""
    return text.isprintable() and len(text) <= 80 and "$" not in text


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


def read_log(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Lines that are events, each with what it says; others are passed over."""
    if not path.exists():
        return []
    found = []
    for line in read_plain(path, _LARGEST_LOG).decode("utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("step", 0), int):
            found.append((line, event))
    return found


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        values = parsed(read_plain(path, LARGEST_TEXT), path.name)
        if isinstance(values, dict):
            return values
        problem = f"expected an object, got {type(values).__name__}"
    except (OSError, ValueError) as error:
        problem = str(error)
    warnings.warn(f"{path} cannot be read ({problem}); continuing without it", stacklevel=3)
    return None


def versions() -> dict[str, str]:
    """What results may depend on besides config and seed."""
    from importlib.metadata import PackageNotFoundError, version

    import numpy

    try:
        own = version("sparsam")
    except PackageNotFoundError:
        own = "unknown"
    return {"sparsam": own, "python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}


def origin(data: str | None = None) -> dict[str, Any]:
    """Versions, command and time: what a config does not say about where a result came from."""
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "data": data,
        "commit": commit(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def commit() -> str | None:
    """The commit of the source tree that this package lies in, marked where files differ; None for an installation."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "csrc").is_dir():
        return None
    try:
        tree = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tree.stdout.strip() or None


def newest_config(folder: RunFolder) -> RunConfig:
    """The config that the newest whole checkpoint carries, for a run whose config.json is damaged."""
    file = checkpoint.newest_weights(folder.checkpoints, older=True)
    text = checkpoint.load_weights(file)[1]
    if text is None:
        raise checkpoint.CheckpointError(f"{file} carries no config")
    return RunConfig.from_json(text)
