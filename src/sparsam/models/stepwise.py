"""Any controller with any engine's memory, one step at a time.

This is the path of the reference engine, and of the fast ones where the controller is the user's own or was changed:
the memory still runs in the engine, with its journal and rollback, at a cost that does not depend on N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sparsam.engines.clipping import BackwardClip
from sparsam.engines.plan import Plan
from sparsam.state import State, blended
from sparsam.trace import Access
from sparsam.transfer import sent
from sparsam.transforms import has_numbers

if TYPE_CHECKING:
    from sparsam.models.composition import MemoryModel


def run(
    model: MemoryModel[Any], plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> tuple[Tensor, State, list[Access]]:
    """Step through x (T, B, I); elements past their length keep their state, and their [h, r] is 0."""
    hiddens, reads, accesses = [], [], []
    held = None if state.hidden is None else state.hidden.dtype
    state = carried_in(state, x.dtype)
    clip = None
    if model.backward_clip is not None and torch.is_grad_enabled():
        if torch.compiler.is_compiling():
            raise RuntimeError("backward_clip: expected None in a compiled call that runs step by step")
        clip = BackwardClip(model.backward_clip, x.shape[0])
    for t, x_t in enumerate(x.unbind(0)):
        active = None if ends is None else t < ends
        if active is not None and has_numbers(active) and bool(active.all()):
            active = None
        hidden, carried = model.control(x_t, state if clip is None else clip.carried(state, t))
        ran = plan.engine.step(plan.memory, model.interface(hidden), state, active, record)
        if active is not None:
            here = sent(active, x.device)
            kept = {name: blended(here, value, getattr(state, name)) for name, value in carried.items()}
            carried, hidden = kept, torch.where(here[:, None], hidden, 0.0)
        hiddens.append(hidden)
        reads.append(ran.joint)
        state = state.with_fields(**carried, **ran.fields)
        accesses += [access.later(t) for access in ran.accesses]
    joint = torch.cat([torch.stack(hiddens), torch.stack(reads).flatten(2)], dim=-1)
    if clip is not None:
        joint, state = clip.given_out(joint, state)
    return joint, carried_in(state, held), accesses


def carried_in(state: Any, dtype: torch.dtype | None) -> Any:
    """The state with the controller's part in `dtype`: it runs in its parameters' type, states may hold more."""
    found = {name: getattr(state, name) for name in ("hidden", "cell")}
    other = {name: value.to(dtype) for name, value in found.items() if value is not None and value.dtype != dtype}
    return state.with_fields(**other) if other else state
