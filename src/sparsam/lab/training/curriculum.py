"""The exponential curriculum of the SAM paper, section 4.3.

Every minibatch draws its size from U(1, h). When the mean training loss over `patience` consecutive
minibatches at one level is below a threshold, h doubles and the count starts again. Doubling keeps the
total work of reaching level h at O(h), where adding a constant would make it O(h^2).

A curriculum with `over` is not the paper's: its level depends on the number of the minibatch alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sparsam.lab.tasks.task import BitTask
from sparsam.lab.training.config import CurriculumConfig


class Curriculum:
    """Level h and the losses seen since it last changed."""

    def __init__(self, config: CurriculumConfig) -> None:
        self.config = config
        self.level = config.start
        self._losses: deque[float] = deque(maxlen=config.patience)
        self._sum = 0.0

    @property
    def timed(self) -> bool:
        """Whether the level rises with the minibatches and not with what was learnt."""
        return self.config.over is not None

    def rise(self, step: int) -> None:
        """The level of minibatch `step` (from 0) in a timed curriculum."""
        start, top, over = self.config.start, self.config.max_level, self.config.over
        if over is not None and top is not None:
            self.level = start + (top - start) * min(step, over) // over

    def update(self, loss: float) -> bool:
        """Take in one minibatch's loss; true when the level has just risen."""
        if len(self._losses) == self.config.patience:
            self._sum -= self._losses[0]
        self._losses.append(loss)
        self._sum += loss
        top = self.config.max_level
        if len(self._losses) < self.config.patience or (top is not None and self.level >= top):
            return False
        # The running sum decides cheaply that it may be time; the exact sum decides that it is.
        if self._sum >= self.config.threshold * self.config.patience * 1.01:
            return False
        if sum(self._losses) >= self.config.threshold * self.config.patience:
            return False
        self.level = 2 * self.level if top is None else min(2 * self.level, top)
        self.forget()
        return True

    def evaluation_size(self, task: Any) -> int | None:
        """The size of evaluated sequences: the level itself.

        A few minibatches of U(1, h) can all be short, and would hide that the longer ones are not learned.
        """
        return self.level if isinstance(task, BitTask) and not self.timed else None

    def forget(self) -> None:
        """Begin anew to count."""
        self._losses.clear()
        self._sum = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level, "losses": list(self._losses), "sum": self._sum}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level = int(state["level"])
        self._losses = deque(state["losses"], maxlen=self.config.patience)
        self._sum = float(state["sum"])
