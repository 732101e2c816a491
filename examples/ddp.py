"""Two processes, one model: DistributedDataParallel around a memory, with states that stay in their process.

torchrun --nproc-per-node 2 examples/ddp.py
"""

from __future__ import annotations

import gc

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sparsam


def main(steps: int = 20) -> float:
    dist.init_process_group("gloo")
    try:
        torch.manual_seed(0)
        model = DistributedDataParallel(sparsam.SAM(6, 6, hidden_size=32, memory_size=1024, word_size=8))
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        torch.manual_seed(dist.get_rank())  # each process its own data
        x, state, loss = torch.randn(12, 8, 6), None, torch.zeros(())
        for _ in range(steps):
            y, state = model(x, state)
            state = state.detach()  # it goes into the next call, of this process
            loss = (y[2:] - x[:-2]).square().mean()  # say again what came two steps ago
            optimizer.zero_grad()
            loss.backward()  # gradients are averaged here
            optimizer.step()
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        mean = weights.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        same = torch.equal(mean, weights * dist.get_world_size())
        if dist.get_rank() == 0:
            print(f"loss {float(loss.detach()):.3f}, the same weights everywhere: {same}")
        return float(loss.detach())
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
    gc.collect()  # DDP's cycles hold the group, whose threads must not outlive the interpreter: 'terminate called ...'
