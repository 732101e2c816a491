"""The log of a run: JSON lines, and the same numbers to every logger."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparsam.lab.training.files import open_here, write_atomic
from sparsam.lab.training.folder import read_log
from sparsam.lab.training.loggers import Logger, Loggers


class RunLog:
    """Appends one line per event. A disk that refuses a line costs that line, not the run."""

    def __init__(
        self, path: Path, loggers: Iterable[Logger] = (), first_step: int = 0, config: dict[str, Any] | None = None
    ) -> None:
        self._path = path
        self._complained = False
        self._cut = False  # whether the last line on disk may be half of one
        if path.exists():
            _forget_after(path, first_step)
        self._file = open(path, "ab", buffering=0, opener=open_here)  # noqa: SIM115
        self._loggers = Loggers(loggers)
        self._loggers.start(config or {}, path.parent, first_step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        line = json.dumps({"kind": kind, "step": step, **values}).encode() + b"\n"
        try:
            line = b"\n" + line if self._cut else line
            self._cut = True
            self._cut = self._file.write(line) != len(line)
        except OSError as error:
            if not self._complained:
                warnings.warn(f"{self._path}: {error}; the run continues without these lines", stacklevel=2)
                self._complained = True
        self._loggers.log(kind, step, values)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            warnings.warn(f"{self._path}: {error}", stacklevel=2)
        self._loggers.close()


def _forget_after(path: Path, step: int) -> None:
    """Drop events later than the checkpoint that a run resumes from, and a half-written last line."""
    kept = [line for line, event in read_log(path) if event.get("step", 0) <= step and event.get("kind") != "end"]
    write_atomic(path, "".join(line + "\n" for line in kept).encode())
