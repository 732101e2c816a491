"""A minibatch's loss and gradient norm on their way from the GPU, read when they have arrived.

Reading a number from the GPU waits until all that was asked of it before is done; the GPU then idles until the host has
put together the next minibatch, which a small model feels most. So the copy is started, and the number taken a
minibatch or two later. Nothing that is computed depends on when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Numbers:
    """Loss and gradient norm of minibatch `step` (from 1)."""

    step: int
    loss: float
    norm: float


class Readback:
    """`send` numbers of a step, `arrived` gives those that are there, oldest first.

    Args:
        most: how many may be on their way; the host waits for the oldest when there are more, and so is never further
            ahead of the GPU.
    """

    def __init__(self, most: int = 2) -> None:
        self.most = most
        self._on_their_way: deque[tuple[int, Tensor, torch.cuda.Event | None]] = deque()

    def send(self, step: int, loss: Tensor, norm: Tensor) -> None:
        numbers = torch.stack([loss, norm]).to("cpu", non_blocking=True)
        event = None
        if loss.is_cuda:
            event = torch.cuda.Event()
            event.record()
        self._on_their_way.append((step, numbers, event))

    def arrived(self, all_of_them: bool = False) -> Iterator[Numbers]:
        """Those that are there; with `all_of_them` every one that was sent, waiting for it."""
        while self._on_their_way:
            step, numbers, event = self._on_their_way[0]
            if event is not None and not event.query():
                if len(self._on_their_way) <= self.most and not all_of_them:
                    return
                event.synchronize()
            self._on_their_way.popleft()
            loss, norm = numbers.tolist()
            yield Numbers(step, loss, norm)
