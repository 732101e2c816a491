"""Data-parallel training under ``torchrun``: every process draws its own minibatch, all take the same step.

The gradient, the loss and the reasons to stop travel in one vector, averaged over the processes, so all of
them have the same weights, the same curriculum and the same end. Process 0 writes the folder. gloo on CPUs,
nccl on GPUs.

    torchrun --nproc-per-node 2 -m sparsam.cli train recall --model sam
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from sparsam.training.flat import FlatParameters


@dataclass
class Processes:
    """This process among ``size``; a process on its own is rank 0 of 1."""

    rank: int = 0
    size: int = 1
    _started: bool = False

    @classmethod
    def from_environment(cls, device: str) -> Processes:
        """Join the processes that torchrun started, if it did."""
        if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
            return cls()
        on_gpu = torch.device(device).type == "cuda"
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        started = not dist.is_initialized()
        if started:
            dist.init_process_group("nccl" if on_gpu else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), started)

    def average(self, flat: FlatParameters, loss: float, stop: bool, late: bool) -> tuple[float, bool, bool]:
        """Average the gradients in place; the mean loss, whether any process wants to stop, and whether process 0's
        clock says that time is up. All in one message: a second one would cost as much again.
        """
        flat.extra.copy_(torch.tensor([loss, float(stop), float(late and self.rank == 0)]))
        dist.all_reduce(flat.exchange)
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

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()

    def close(self) -> None:
        if self._started:
            dist.destroy_process_group()
