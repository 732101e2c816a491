"""The dense models on the GPU: the reference's own steps, replayed as CUDA graphs."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from torch import Tensor

from sparsam.engines.cuda.graphs import Sequences
from sparsam.state import State

DENSE = ("ntm", "dam", "dnc")
_sequences: weakref.WeakKeyDictionary[Any, tuple[tuple[int, ...], Sequences]] = weakref.WeakKeyDictionary()


def run(model: Any, x: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, State]:
    """Run x (T, B, I) from `state`, a state of the reference."""
    names = [name for name, _ in state.values()]
    sequences = _of(model, names)
    ends = None if lengths is None else lengths.to(x.device)
    y, *values = sequences(x, tuple(getattr(state, name) for name in names), ends)
    return y, dataclasses.replace(state, **dict(zip(names, values)))


def _of(model: Any, names: list[str]) -> Sequences:
    """The model's captured sequences, made anew when its parameters lie elsewhere than they did."""
    parameters = tuple(model.parameters())
    places = (*(p.data_ptr() for p in parameters), *(int(p.requires_grad) for p in parameters), int(model.training))
    known = _sequences.get(model)
    if known is not None and known[0] == places:
        return known[1]
    owner = weakref.ref(model)

    def step(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        alive: Any = owner()
        y, after, _ = alive.reference_step(x, alive.state_class(**dict(zip(names, values))))
        return y, *(getattr(after, name) for name in names)

    sequences = Sequences(step, parameters)
    _sequences[model] = (places, sequences)
    return sequences
