"""The log of a run: JSON lines, and the same numbers in TensorBoard where that is installed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from sparsam.training import checkpoint


class RunLog:
    """Appends one line per event. A disk that refuses a line costs that line, not the run."""

    def __init__(self, path: Path, tensorboard: Path | None = None, first_step: int = 0) -> None:
        self._path = path
        self._complained = False
        if path.exists():
            _forget_after(path, first_step)
        self._file = open(path, "a", buffering=1)  # noqa: SIM115
        self._tensorboard = _writer(tensorboard, first_step) if tensorboard else None

    def write(self, kind: str, step: int, **values: Any) -> None:
        try:
            self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
            if self._tensorboard is not None:
                for key, value in values.items():
                    if isinstance(value, (int, float)):
                        self._tensorboard.add_scalar(f"{kind}/{key}", value, step)
        except OSError as error:
            if not self._complained:
                warnings.warn(f"{self._path}: {error}; the run goes on without these lines", stacklevel=2)
                self._complained = True

    def close(self) -> None:
        try:
            self._file.close()
            if self._tensorboard is not None:
                self._tensorboard.close()
        except OSError as error:
            warnings.warn(f"{self._path}: {error}", stacklevel=2)


def _forget_after(path: Path, step: int) -> None:
    """Drop events later than the checkpoint that a run resumes from, and a half-written last line."""
    kept = []
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if event.get("step", 0) <= step and event.get("kind") != "end":
            kept.append(line)
    checkpoint.write_atomic(path, "".join(line + "\n" for line in kept).encode())


def _writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step or None)
