"""The native engine: one C++ call runs a whole sequence forward, another backward, the memory written in place.

The core (csrc/) steps through time; what can be one large product over all steps (input projection, output layer,
weight gradients) stays with torch. `docs/rollback.md` tells how the memory is taken back.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native.core import missing
from sparsam.engines.native.core import native as _native
from sparsam.engines.native.links import NativeLinks
from sparsam.engines.native.memory import NativeMemory, fresh_memory
from sparsam.engines.native.sequence import Call, Sequence
from sparsam.engines.reference.access import Access
from sparsam.engines.whole_sequence import parameters
from sparsam.state import State

DTYPES = (torch.float32, torch.float64)
INFERENCE_STEPS = 512  # without gradients nothing is kept for long, so long sequences run in pieces


def why_not(model: Any) -> str | None:
    """It runs SAM and SDNC on the CPU in float32 or float64."""
    if _native is None:
        return f"the extension sparsam._native is not there ({missing})"
    if model.name not in ("sam", "sdnc"):
        return f"it has no {type(model).__name__}"
    options = model.options_in_use(besides=("bypass_dropout",))
    if options:
        return f"it has no {' and no '.join(options)}"
    weight = model.output.weight
    if weight.device.type != "cpu":
        return f"it runs on the CPU, the parameters are on {weight.device}"
    if weight.dtype not in DTYPES:
        return f"it runs in float32 or float64, the parameters are {weight.dtype}"
    return None


def initial_state(model: Any, batch_size: int, initial_memory: Tensor | None) -> State:
    fields: dict[str, Any] = model.controller_start(batch_size)
    k_links = getattr(model, "k_links", 0)
    fields["memory"] = fresh_memory(
        batch_size,
        model.memory_size,
        model.word_size,
        initial_memory,
        model.output.weight,
        k_links,
        getattr(model, "allocation", "ring"),
    )
    if k_links:
        fields["links"] = NativeLinks()
    return model.state_class(**fields, start=model.state_class(**fields))


# torch.compile leaves the call as it is: the memory beneath a state is not a tensor that it could trace.
@torch.compiler.disable
def run(model: Any, x: Tensor, state: Any, lengths: Tensor | None, record: bool) -> tuple[Tensor, State, list[Access]]:
    """Run x (T, B, I) from `state`; in pieces where no gradient is asked for."""
    if not isinstance(state.memory, NativeMemory):
        raise ValueError("state: expected one of engine 'native', got one of engine 'reference'")
    allocation = getattr(model, "allocation", "ring")
    state.memory.check(model.memory_size, model.word_size, getattr(model, "k_links", 0), allocation)
    steps, batch, _ = x.shape
    ends = torch.full((batch,), steps) if lengths is None else lengths
    if _needs_gradient(model, x, state):
        y, state, accesses = _run_piece(model, x, state, ends, record, 0)
    else:
        # An unmaterialised memory belongs to this call alone: no earlier state can ask for it back.
        keep = any(version is not None for version in state.memory.versions)
        pieces, accesses = [], []
        for begin in range(0, steps, INFERENCE_STEPS):
            piece = x[begin : begin + INFERENCE_STEPS]
            left = (ends - begin).clamp(0, piece.shape[0])
            y, state, seen = _run_piece(model, piece, state, left, record, begin, keep)
            pieces.append(y)
            accesses += seen
        y = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return y, state, accesses


def _needs_gradient(model: Any, x: Tensor, state: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    if x.requires_grad or any(p.requires_grad for p in model.parameters()):
        return True
    inputs = (state.hidden, state.cell, state.read, state.read_weights, state.memory.link, _links_graph(state))
    return any(value is not None and value.requires_grad for value in inputs)


def _links_graph(state: Any) -> Tensor | None:
    links = getattr(state, "links", None)
    return None if links is None else links.graph


def _run_piece(
    model: Any, x: Tensor, state: Any, ends: Tensor, record: bool, begin: int, keep: bool = False
) -> tuple[Tensor, State, list[Access]]:
    call = Call(model, state, ends, record, begin, keep)
    y, hidden, cell, read, rows, weights, link, graph = Sequence.apply(
        call,
        x,
        *parameters(model),
        state.hidden,
        state.cell,
        state.read,
        state.read_weights,
        state.memory.link,
        _links_graph(state),
    )
    fields = {"hidden": hidden, "cell": cell, "read": read, "read_rows": rows, "read_weights": weights}
    if hasattr(state, "links"):
        fields["links"] = NativeLinks(graph)
    after = dataclasses.replace(state, **fields, memory=state.memory.advanced(call.after, link))
    return y, after, call.accesses


def kept_bytes(y: Tensor) -> int:
    """Bytes that the forward pass that put out `y` keeps for its backward pass: the tape and the journals."""
    node: Any = y.grad_fn
    if getattr(node, "held", None) is None:
        raise ValueError("y: expected an output of the native engine that still waits for its backward pass")
    return node.kept_bytes
