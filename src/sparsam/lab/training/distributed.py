"""Data-parallel training under `torchrun`: every process draws its own minibatch, all take the same step.

The gradient, the loss and the reasons to stop travel in one vector, averaged over the processes, so all of them have
the same weights, the same curriculum and the same end. Process 0 writes the folder. gloo on CPUs, nccl on GPUs.

    torchrun --nproc-per-node 2 -m sparsam.lab.cli train recall --model sam
"""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sparsam.lab.training.flat import FlatParameters


class LostProcess(RuntimeError):
    """One of the processes that take every step together is gone."""


def _join(backend: str, wait_seconds: float) -> None:
    """Meet the other processes. Where nobody is left to meet, torch waits twice as long as it was told."""
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=timedelta(seconds=wait_seconds / 2)))
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=wait_seconds)
        )
    except RuntimeError as error:
        raise LostProcess(f"the processes of this run did not find each other ({error}); start it again") from error


@dataclass
class Processes:
    """This process among `size`; a process on its own is rank 0 of 1."""

    rank: int = 0
    size: int = 1
    _started: bool = False

    @classmethod
    def from_environment(cls, device: str, wait_seconds: float = 600.0) -> Processes:
        """Join the processes that torchrun started, if it did; none waits longer for another than `wait_seconds`."""
        if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
            return cls()
        on_gpu = torch.device(device).type == "cuda"
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        started = not dist.is_initialized()
        if started:
            _join("nccl" if on_gpu else "gloo", wait_seconds)
        return cls(dist.get_rank(), dist.get_world_size(), started)

    def average(self, flat: FlatParameters, loss: float, stop: bool, late: bool) -> tuple[float, bool, bool]:
        """Average the gradients in place; the mean loss, whether any process wants to stop, and whether process 0's
        clock says that time is up. All in one message: a second one would cost as much again.
        """
        flat.extra.copy_(torch.tensor([loss, float(stop), float(late and self.rank == 0)]))
        try:
            dist.all_reduce(flat.exchange)
        except RuntimeError as error:
            raise LostProcess(
                f"another process of this run has ended or does not answer ({error}); "
                "start it again with --resume to continue from the last checkpoint"
            ) from error
        flat.exchange.div_(self.size)
        mean, any_stop, any_late = flat.extra.tolist()
        return mean, any_stop > 0, any_late > 0

    def share(self, value: Any) -> Any:
        """Process 0's value, in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def agree(self, good: bool) -> bool:
        """Whether all is good in every process."""
        if self.size == 1:
            return good
        said: list[bool] = [False] * self.size
        dist.all_gather_object(said, good)
        return all(said)

    def close(self) -> None:
        if self._started:
            dist.destroy_process_group()
            gc.collect()  # a group that a cycle holds would have threads that outlive the interpreter
