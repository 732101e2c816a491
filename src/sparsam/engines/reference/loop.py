"""The reference engine: a loop over time of plain PyTorch steps. Slow, obviously right, any device and dtype."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.reference.access import Access
from sparsam.state import State


def why_not(model: Any) -> str | None:
    """It runs everything whose index is exact."""
    index = getattr(model, "index", None)
    if index is not None and not indexes.is_exact(index):
        return f"it has exact search (index='linear') only, not {index}"
    return None


def initial_state(model: Any, batch_size: int, initial_memory: Tensor | None) -> State:
    return model.reference_state(batch_size, initial_memory)


def run(
    model: Any, x: Tensor, state: State, lengths: Tensor | None, record: bool
) -> tuple[Tensor, State, list[Access]]:
    """Step through x (T, B, I); elements past their length keep their state and put out 0."""
    memory = getattr(state, "memory", None)
    if memory is not None and getattr(memory, "engine", "reference") != "reference":
        raise ValueError(f"state: expected one of engine 'reference', got one of engine {memory.engine!r}")
    whole = model.reference_sequence(x, state, lengths)
    if whole is not None:
        return *whole, []
    outputs, accesses = [], []
    ends = None if lengths is None else lengths.to(x.device)
    for t in range(x.shape[0]):
        y, after, accessed = model.reference_step(x[t], state)
        active = None if ends is None else t < ends
        if active is not None and not bool(active.all()):
            y = torch.where(active[:, None], y, torch.zeros_like(y))
            after = state.blend(active, after)
        state = after
        outputs.append(y)
        if record:
            accesses += [access.at(t, active) for access in accessed]
    return torch.stack(outputs), state, accesses
