"""The log of a run: JSON lines, and the same numbers to every logger."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparsam.lab.training.files import open_here, write_atomic
from sparsam.lab.training.folder import read_log
from sparsam.lab.training.loggers import Logger


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
        self._loggers = list(loggers)
        self._each(lambda logger: logger.start(config or {}, path.parent, first_step))

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
        if self._loggers:
            numbers = {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            self._each(lambda logger: logger.log(kind, step, numbers))

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            warnings.warn(f"{self._path}: {error}", stacklevel=2)
        self._each(lambda logger: logger.close())

    def _each(self, call: Callable[[Logger], None]) -> None:
        """Call every logger; one that raises is left out from then on."""
        for logger in list(self._loggers):
            try:
                call(logger)
            except Exception as error:
                name = type(logger).__name__
                warnings.warn(f"logger {name}: {type(error).__name__}: {error}; continuing without it", stacklevel=3)
                self._loggers.remove(logger)


def _forget_after(path: Path, step: int) -> None:
    """Drop events later than the checkpoint that a run resumes from, and a half-written last line."""
    kept = [line for line, event in read_log(path) if event.get("step", 0) <= step and event.get("kind") != "end"]
    write_atomic(path, "".join(line + "\n" for line in kept).encode())
