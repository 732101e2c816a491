"""Any controller with any engine's memory, one step at a time.

This is the path of the reference engine, and of the fast ones where the controller is the user's own or was changed:
the memory still runs in the engine, with its journal and rollback, at a cost that does not depend on N.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.engine import Engine
from sparsam.state import State, blended
from sparsam.trace import Access


def run(
    model: Any, engine: Engine, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> tuple[Tensor, State, list[Access]]:
    """Step through x (T, B, I); elements past their length keep their state, and their [h, r] is 0."""
    joints, accesses = [], []
    for t, x_t in enumerate(x.unbind(0)):
        active = None if ends is None else t < ends
        if active is not None and not torch.compiler.is_compiling() and bool(active.all()):
            active = None
        hidden, carried = model.control(x_t, state)
        vector = model.interface(hidden)
        ran = engine.steps(model.memory, vector[None], state, None if active is None else active.long(), record)
        if active is not None:
            here = active.to(x.device)
            held = {name: blended(here, value, getattr(state, name)) for name, value in carried.items()}
            carried, hidden = held, torch.where(here[:, None], hidden, 0.0)
        joints.append(torch.cat([hidden, ran.joint[0]], dim=-1))
        state = dataclasses.replace(state, **carried, **ran.fields)
        accesses += [access.later(t) for access in ran.accesses]
    return torch.stack(joints), state, accesses
