"""Minibatches for a GPU, made while the GPU is busy with those before: by a thread, or drawn by another process."""

from __future__ import annotations

import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from sparsam.lab.tasks.task import Batch, DrawnApart, Task
from sparsam.lab.training.drawing import Drawer, DrawerGone
from sparsam.lab.training.seeds import MinibatchSeeds

_DRAWN_AHEAD = 4  # minibatches that a drawing process is ahead, so that neither waits for the other


class Prefetch:
    """`take(step, level)` is the minibatch that the task draws for them: a step's random numbers depend on nothing
    else, so one drawn ahead is the same, and one drawn for another level is drawn again.

    Args:
        drawer: the process that draws; None draws in this one. When it ends before its time the rest is drawn here.
    """

    def __init__(
        self, task: Task, seeds: MinibatchSeeds, batch_size: int, device: str, drawer: Drawer | None = None
    ) -> None:
        self.task, self.seeds, self.batch_size, self.device = task, seeds, batch_size, device
        self._drawer = drawer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sparsam-prefetch")
        self._ahead: deque[tuple[int, int | None, Future[Batch]]] = deque()

    def take(self, step: int, level: int | None) -> Batch:
        if not self._ahead or self._ahead[0][:2] != (step, level):
            self._ahead.clear()  # drawn in vain
            self._begin(step, level)
        batch = self._ahead.popleft()[2]
        most = 1 if self._drawer is None else _DRAWN_AHEAD
        while len(self._ahead) < most:
            self._begin(step + 1 + len(self._ahead), level)
        return batch.result()

    def _begin(self, step: int, level: int | None) -> None:
        drawer = self._drawer
        if drawer is not None:
            with suppress(DrawerGone):  # it is noticed, and told, where the answer is missed
                drawer.ask(step, level)
        make = self._draw if drawer is None else self._receive
        self._ahead.append((step, level, self._thread.submit(make, step, level)))

    def _receive(self, step: int, level: int | None) -> Batch:
        """What the drawing process sends for this step, as a batch on the device."""
        assert isinstance(self.task, DrawnApart)
        drawer = self._drawer
        if drawer is None:
            return self._draw(step, level)
        try:
            drawn = drawer.answer()
        except DrawerGone as gone:
            self._drawer = None
            warnings.warn(f"{gone}; minibatches are drawn in the training process from now on", stacklevel=2)
            return self._draw(step, level)
        return self.task.batch_of(drawn).pinned().to(self.device, True)

    def _draw(self, step: int, level: int | None) -> Batch:
        return self.task.sample(self.batch_size, self.seeds.at(step), level).pinned().to(self.device, True)
