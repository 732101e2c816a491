"""Going back to the best weights of a level when a curriculum has lost what it could.

Not in the paper. Over sequences of hundreds of steps a few gradients are a hundred times as large as the rest, and a
step along one of them can undo what was learnt; clipping bounds its length and not its direction. So the weights and
the optimiser's statistics of the best `patience` minibatches at a level are kept, and when a later mean loss is
`retreat` times theirs, training goes on from them at half the rate. The rate is half as much again whenever the loss is
lower than before at this level, and twice as much at the next level, up to the full one.

What the weights that earned a level can do there is not known beforehand. They are asked for twice the threshold; when
training has gone back to them `TRIES` times, there is nothing to lose yet, and it goes on from where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsam.lab.training.curriculum import Curriculum

if TYPE_CHECKING:
    from sparsam.lab.training.learner import Learner


TRIES = 3  # at a level, before a loss has been seen that is worth going back for


class Retreat:
    """What was best at this level: the mean loss of `patience` minibatches, and the learner after them."""

    def __init__(self, curriculum: Curriculum, learner: Learner) -> None:
        config = curriculum.config
        if config.retreat is None:
            raise ValueError("curriculum.retreat: expected a number, got None")
        self.curriculum = curriculum
        self.factor, self.patience, self.threshold = config.retreat, config.patience, config.threshold
        self.learner = learner
        self.lowest: float | None = None  # None until the first level has seen `patience` minibatches
        self._kept: dict[str, Any] | None = None
        self._tries: int | None = None  # to begin a level; None where it has begun
        self._sum, self._count = 0.0, 0

    def rise(self) -> None:
        """A new level: what counts is how it goes there, beginning with the weights that earned it.

        They have a loss of `threshold` on the shorter half of its sequences; twice that is what they can be asked for.
        """
        self._kept, self.lowest = self.learner.kept(), 2 * self.threshold
        self.learner.slower = min(2 * self.learner.slower, 1.0)
        self._tries = 0
        self._sum, self._count = 0.0, 0

    def update(self, loss: float) -> bool:
        """Take in one minibatch's loss; true when the learner has just gone back."""
        self._sum += loss
        self._count += 1
        if self._count < self.patience:
            return False
        mean, self._sum, self._count = self._sum / self._count, 0.0, 0
        if self._lost(mean) and self._tries != TRIES:
            self._tries = None if self._tries is None else self._tries + 1
            self._go_back()
            return True
        if self.lowest is None or mean < self.lowest or self._lost(mean):
            self.lowest, self._kept, self._tries = mean, self.learner.kept(), None
            self.learner.slower = min(1.5 * self.learner.slower, 1.0)
        return False

    def settle(self) -> bool:
        """The run ends: true when the last minibatches had lost the level and the learner has gone back."""
        lost = self._count > 0 and self._lost(self._sum / self._count)
        if lost:
            self._go_back()
        return lost

    def _lost(self, mean: float) -> bool:
        return self.lowest is not None and mean > self.threshold and mean > self.factor * self.lowest

    def _go_back(self) -> None:
        assert self._kept is not None
        self.learner.take_back(self._kept)
        self.learner.slower /= 2
        self.curriculum.forget()
        self._sum, self._count = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "lowest": self.lowest,
            "kept": self._kept,
            "tries": self._tries,
            "window": [self._sum, self._count],
            "slower": self.learner.slower,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lowest, self._kept, self.learner.slower = state["lowest"], state["kept"], state["slower"]
        self._tries = state["tries"]
        self._sum, self._count = state["window"]


def follow(curriculum: Curriculum, retreat: Retreat | None, loss: float) -> str | None:
    """What a minibatch's loss changes: "level" for one more, "retreat" for back to the best of this one, or None."""
    if curriculum.update(loss):
        if retreat:
            retreat.rise()
        return "level"
    return "retreat" if retreat and retreat.update(loss) else None
