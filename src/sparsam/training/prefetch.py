"""Minibatches for a GPU, drawn by a thread while the GPU is busy with the one before."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from sparsam.tasks.task import Batch, Task
from sparsam.training.seeds import MinibatchSeeds


class Prefetch:
    """`take(step, level)` is the minibatch that the task draws for them: a step's random numbers depend on nothing
    else, so one drawn ahead is the same, and one drawn for another level is drawn again.
    """

    def __init__(self, task: Task, seeds: MinibatchSeeds, batch_size: int, device: str) -> None:
        self.task, self.seeds, self.batch_size, self.device = task, seeds, batch_size, device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sparsam-prefetch")
        self._ahead: tuple[int, int | None, Future[Batch]] | None = None

    def take(self, step: int, level: int | None) -> Batch:
        if self._ahead is not None and self._ahead[:2] == (step, level):
            batch = self._ahead[2].result()
        else:
            batch = self._draw(step, level)
        self._ahead = (step + 1, level, self._thread.submit(self._draw, step + 1, level))
        return batch

    def _draw(self, step: int, level: int | None) -> Batch:
        return self.task.sample(self.batch_size, self.seeds.at(step), level).pinned().to(self.device, True)
