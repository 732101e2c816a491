"""How much memory the process holds, and what an autograd graph keeps."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.boundary import Call


def resident_bytes() -> int:
    """Resident set size of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_bytes() -> int:
    """Memory that can be taken without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo does not tell MemAvailable")


def graph_bytes(forward: Callable[[], Any]) -> int:
    """Bytes of distinct storages that autograd saves during `forward`: exact, whatever the allocator does."""
    storages: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        kept = forward()  # alive until counted, so that no storage is reused
    del kept
    return sum(storages.values())


def kept_bytes(y: Tensor) -> int:
    """Bytes that the forward pass that put out `y` keeps for its backward pass: the tape and the journals."""
    seen, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        call = getattr(node, "call", None)
        kept = call.tape.bytes if isinstance(call, Call) and call.tape is not None else None
        if kept is not None:
            return int(kept)
        todo += [after for after, _ in node.next_functions]
    raise ValueError("y: expected an output of a fast engine before its backward pass")
