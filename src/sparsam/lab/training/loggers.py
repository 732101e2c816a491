"""Where the numbers of a run go besides its log: TensorBoard, and any class with three methods.

For Weights & Biases, say, this class in my_module.py is used by `sparsam train copy --logger my_module:Wandb`:

    class Wandb:
        def start(self, config, folder, step):
            self.run = wandb.init(config=config, dir=folder)
        def log(self, kind, step, values):
            self.run.log({f"{kind}/{key}": value for key, value in values.items()}, step=step)
        def close(self):
            self.run.finish()
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from sparsam.lab.training.user_classes import own_logger


class Logger(Protocol):
    """What the trainer asks of a logger. One that raises is left out from then on; the run goes on."""

    def start(self, config: dict[str, Any], folder: Path, step: int) -> None:
        """Called once, before the first minibatch after `step`, which is above 0 when a run goes on."""
        ...

    def log(self, kind: str, step: int, values: dict[str, float]) -> None:
        """Numbers of minibatch `step`. Kind "train" has loss, errors and gradient_norm; others are "eval", "memory",
        "level" and "end"."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Scalars `train/loss`, `train/gradient_norm`, the task's errors, the same of evaluations, and what was read and
    written then (`memory/rows_read` and so on, see `sparsam.diagnose`)."""

    def __init__(self) -> None:
        self._writer: Any = None

    def start(self, config: dict[str, Any], folder: Path, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step or None)

    def log(self, kind: str, step: int, values: dict[str, float]) -> None:
        if self._writer is not None:
            for key, value in values.items():
                self._writer.add_scalar(f"{kind}/{key}", value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def build_loggers(names: Iterable[str]) -> list[Logger]:
    """The loggers that a config names as `module:Class`; the user must have named them too (see user_classes.py)."""
    return [own_logger(name) for name in names]
