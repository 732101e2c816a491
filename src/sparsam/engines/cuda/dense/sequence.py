"""The dense models on the GPU: by kernels of their own where a program can hold the memory, else as CUDA graphs.

A graph replays controller and plain memory step, some 300 launches a step; `sparsam.engines.cuda.dense.program` runs a
whole sequence in one.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.cuda import why_no_triton
from sparsam.engines.cuda.dense import layout, program
from sparsam.engines.cuda.dense.graphs import Sequences, plain_sequence
from sparsam.engines.engine import Controller, Ran
from sparsam.engines.feedforward import FEEDFORWARD, run_feedforward
from sparsam.memories.memory import Memory
from sparsam.trace import Access
from sparsam.transfer import sent

CARRIED = {"lstm": ("hidden", "cell"), "gru": ("hidden",), FEEDFORWARD: ()}  # fields of the state, by controller
_sequences: weakref.WeakKeyDictionary[Memory, tuple[Any, Sequences]] = weakref.WeakKeyDictionary()


def run(memory: Memory, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
    """Run x (T, B, I) from `state`, a state of the reference."""
    if not record and not torch.compiler.is_compiling() and has_kernel(memory, controller, x):
        if controller.name == FEEDFORWARD:
            return run_feedforward(program.run, memory, controller, x, state, ends, record)
        return program.run(memory, controller, x, state, ends)
    names = [*CARRIED[controller.name], *memory.shapes()]
    values = tuple(getattr(state, name) for name in names)
    ends = None if ends is None else sent(ends, x.device)
    accesses: list[Access] = []
    if record:
        step = stepper(memory, controller, names, accesses)
        joint, *after = plain_sequence(step, x, values, ends)
        timed = [access.at(t // 2, None if ends is None else t // 2 < ends) for t, access in enumerate(accesses)]
        return Ran(joint, dict(zip(names, after)), timed)
    if torch.compiler.is_compiling():
        joint, *after = plain_sequence(stepper(memory, controller, names), x, values, ends)
    else:
        joint, *after = sequences_of(memory, controller, names)(x, values, ends)
    return Ran(joint, dict(zip(names, after)), [])


def has_kernel(memory: Memory, controller: Controller, x: Tensor) -> bool:
    values = (x, *controller.weights, *controller.interface)
    return why_no_triton() is None and layout.fits(memory) and all(value.dtype == torch.float32 for value in values)


def stepper(memory: Memory, controller: Controller, names: list[str], accesses: list[Any] | None = None) -> Any:
    """(x_t, *state) -> ([h_t, r_t], *state) of a dense model."""

    def step(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        fields: dict[str, Any] = {"hidden": None, "cell": None, **dict(zip(names, values))}
        state: Any = memory.state_class(**fields)
        inputs = torch.cat([x, state.read.flatten(1)], dim=-1)
        # torch's own steps: one kernel for all gates, where the reference's step has a dozen
        if controller.name == "lstm":
            hidden, fields["cell"] = torch.lstm_cell(inputs, (state.hidden, state.cell), *controller.weights)
        elif controller.name == "gru":
            hidden = torch.gru_cell(inputs, state.hidden, *controller.weights)
        else:
            hidden = torch.tanh(F.linear(inputs, *controller.weights))
        fields["hidden"] = hidden
        read, changed, accessed = memory.step(F.linear(hidden, *controller.interface), state)
        if accesses is not None:
            accesses.extend(accessed)
        fields |= changed
        return torch.cat([hidden, read.flatten(1)], dim=-1), *(fields[name] for name in names)

    return step


def sequences_of(memory: Memory, controller: Controller, names: list[str]) -> Any:
    """The captured sequences of a model, made anew when its parameters lie elsewhere than they did."""
    parameters = (*controller.weights, *controller.interface)
    if not all(parameter.is_leaf for parameter in parameters):  # computed at every call, so nothing to capture
        step = stepper(memory, controller, names)
        return lambda x, values, ends: plain_sequence(step, x, values, ends)
    places = (controller.name, *((p.data_ptr(), p.requires_grad) for p in parameters))
    known = _sequences.get(memory)
    if known is None or known[0] != places:
        # What is captured has leaves of its own over the same numbers: torch would take the gradients of the model's
        # where some other graph of theirs runs, and that breaks a capture.
        leaves = tuple(p.detach().requires_grad_(p.requires_grad) for p in parameters)
        count = len(controller.weights)
        own = Controller(controller.name, controller.hidden, leaves[:count], leaves[count:])  # type: ignore[arg-type]
        known = (
            places,
            Sequences(stepper(memory, controller, names), parameters, (stepper(memory, own, names), leaves)),
        )
        _sequences[memory] = known
    return known[1]
