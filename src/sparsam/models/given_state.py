"""Whether a state that a call is given is of this model, and if not, what is wrong with it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import checks
from sparsam.state import described

SOMETIMES = ("hidden", "cell", "controller", "links")  # fields that some modules have and others leave None


def others(model: Any) -> tuple[tuple[str, bool], ...]:
    """Those of them that have no shape of their own here, and whether this module has them."""
    shaped, carried = model.state_shapes(), model.carried()
    names = [name for name in SOMETIMES if name in model.state_class.field_names and name not in shaped]
    return tuple((name, name in carried) for name in names)


def checked(model: Any, state: Any, batch: int, like: Tensor) -> Any:
    """Return `state` when it is one of `model` for a batch of this size, of the type and device of `like`."""
    wanted, title = model.state_class, type(model).__name__
    if type(state) is not wanted:
        raise TypeError(f"state: expected a {wanted.__name__} of a {title}, got {type(state).__name__}")
    if state.batch_size != batch:
        raise ValueError(f"state: expected batch size B = {batch} as in x, got {state.batch_size}")
    for name, there in others(model):
        value = getattr(state, name)
        if (value is not None) is not there:
            got = "none" if value is None else described(value)
            raise ValueError(f"state: expected {name if there else f'no {name}'} for this {title}, got {got}")
    for name, shape in model.state_shapes().items():
        value = getattr(state, name)
        if not isinstance(value, Tensor) and not hasattr(value, "engine"):
            expected = ", ".join(["B", *map(str, shape)])
            raise TypeError(f"state: expected {name} of shape ({expected}), got {type(value).__name__}")
        if (isinstance(value, Tensor) or len(value.shape) > 1) and tuple(value.shape[1:]) != shape:
            expected = ", ".join(["B", *map(str, shape)])
            raise ValueError(f"state: expected {name} of shape ({expected}), got {tuple(value.shape)}")
        if value.shape[0] != batch:
            raise ValueError(f"state: expected {name} of batch size B = {batch}, got {value.shape[0]}")
        if isinstance(value, Tensor):
            if value.is_floating_point():
                checks.like_parameter("state", value, like)
            elif value.dtype != torch.int64:
                raise TypeError(f"state: expected {name} of dtype torch.int64, got {value.dtype}")
    return state
