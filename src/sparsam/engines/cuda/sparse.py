"""SAM's and the SDNC's memory on a GPU: a fresh one, and runs as nodes of the autograd graph.

`sparsam.engines.cuda.program` runs a sequence over tensors.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import Inputs, Outputs, inputs_of
from sparsam.engines.cuda import operators, program, streaming
from sparsam.engines.cuda.links import no_sparse_links
from sparsam.engines.cuda.memory import fresh_memory
from sparsam.engines.cuda.weights import Weights
from sparsam.engines.engine import Controller, Ran
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory
from sparsam.trace import READ, WRITE, Access

MOST_STARTS = 8  # kept of one memory, by batch size

_starts: weakref.WeakKeyDictionary[Memory, dict[Any, tuple[dict[str, Any], list[tuple[Tensor, int]]]]]
_starts = weakref.WeakKeyDictionary()


def fresh(memory: Any, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
    sizes = memory.sizes
    held = fresh_memory(sizes, batch, None if initial is None else initial.clone(), like)
    fields = {**memory.no_read(batch, like), "memory": held}
    if sizes.k_links:
        fields["links"] = no_sparse_links(batch, held.words.shape[1], sizes.rows, sizes.k_links, like)
    return fields


def start(memory: Any, batch: int, like: Tensor) -> dict[str, Any]:
    """The same for a blank memory, kept from call to call until somebody writes to one of the tensors."""
    if torch.compiler.is_compiling() or not lasting(like):
        return fresh(memory, batch, None, like)
    known = _starts.setdefault(memory, {})
    key = (batch, like.device, like.dtype, stream_of(like))
    if key not in known or any(value._version != version for value, version in known[key][1]):
        while len(known) >= MOST_STARTS:
            del known[next(iter(known))]
        fields = fresh(memory, batch, None, like)
        links = fields["links"].tensors() if "links" in fields else ()
        tensors = (fields["read"], fields["read_rows"], fields["read_weights"], *fields["memory"].tensors(), *links)
        if any(type(value) is not Tensor for value in tensors):  # of a mode that makes tensors of its own kind
            return fields
        known[key] = fields, [(value, value._version) for value in tensors]
    return known[key][0]


def run(memory: Any, controller: Controller | None, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
    """x (T, B, I), or without a controller the interface vectors (T, B, F)."""
    if x.dtype == torch.float16:
        return run_in_singles(memory, controller, x, state, ends, record)
    if torch.compiler.is_compiling():
        return operators.traced_run(memory, controller, x, state, ends, record)
    if x.shape[0] == 1 and ends is None and not record and not torch.is_grad_enabled():
        ran = streaming.run(memory, controller, x, state)
        if ran is not None:
            return ran
    call = CudaCall(memory.sizes, controller, state, ends)
    links = state.links.weights() if memory.sizes.link_gradients and memory.sizes.k_links else ()
    out = boundary.run(call, boundary.inputs(controller, x, state, state.memory.words, *links))
    assert call.after is not None and out.memory is not None
    held = call.after.memory
    held = held if out.memory is held.words else dataclasses.replace(held, words=out.memory)
    linked = call.after.links
    if linked is not None and out.links is not None:
        linked = linked.with_weights(*out[6:9])
    fields = boundary.fields_after(out, call.after.read_rows, held, linked)
    accesses = recorded_accesses(call.run) if record else []
    call.after, call.run = None, None  # what the state needs; the tape itself belongs to the graph
    return Ran(out.joint, fields, accesses)


def run_in_singles(
    memory: Any, controller: Controller | None, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> Ran:
    """A run in float32 from and to float16: the kernels' own sums would leave its range."""
    if controller is not None:
        parameters = [tuple(each.float() for each in part) for part in (controller.weights, controller.interface)]
        controller = Controller(controller.name, controller.hidden, *parameters, clip=controller.clip)  # type: ignore[arg-type, misc]
    held = {name: getattr(state, name) for name in ("hidden", "cell", "read", "read_weights")}
    singles = {name: value.float() for name, value in held.items() if value is not None}
    ran = run(memory, controller, x.float(), state.with_fields(**singles), ends, record)
    back = {name: ran.fields[name].to(x.dtype) for name in singles if name in ran.fields}
    return Ran(ran.joint.to(x.dtype), {**ran.fields, **back}, ran.accesses)


def lasting(like: Tensor) -> bool:
    """Whether tensors made now can be used in any later call."""
    if torch.is_inference_mode_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (like.is_cuda and torch._C._cuda_isCurrentStreamCapturing())


def stream_of(like: Tensor) -> int:
    return torch._C._cuda_getCurrentRawStream(like.device.index) if like.is_cuda else 0


class CudaCall(boundary.Call):
    engine = "cuda"

    def __init__(self, sizes: SparseSizes, controller: Controller | None, state: Any, ends: Tensor | None) -> None:
        self.sizes, self.controller, self.ends = sizes, controller, ends
        self.read_rows, self.memory = state.read_rows, state.memory.detach()
        links = getattr(state, "links", None)
        self.links = None if links is None else links.detach()
        self.clip = None if controller is None else controller.clip
        self.after: program.Before | None = None
        self.run: program.Run | None = None

    def forward(self, inputs: Inputs, differentiable: bool) -> Outputs:
        weights = None if self.controller is None else Weights(*inputs[1:7])  # type: ignore[arg-type]
        before = program.Before(
            inputs.hidden, inputs.cell, inputs.read, self.read_rows, inputs.read_weights, self.memory, self.links
        )
        name = "none" if self.controller is None else self.controller.name
        joint, after, run = program.forward(self.sizes, name, inputs.x, weights, before, self.ends)
        self.after, self.run = after, run
        if differentiable:
            self.tape = run
        links: Any = after.links.weights() if run.size.LG and after.links is not None else (None,) * 3
        words = after.memory.words
        return Outputs(joint, after.hidden, after.cell, after.read, after.read_weights, words, *links)

    def backward(self, inputs: Inputs, gradients: Outputs, needed: Inputs) -> Inputs:
        """The tape stays as it is, so a second pass needs no second run."""
        found = program.backward(
            self.tape, *gradients[:6], d_links=gradients[6:], words_wanted=bool(needed.memory), clip=self.clip
        )
        weights: Any = (None,) * 6 if found.weights is None else found.weights
        memory = found.words if needed.memory else None
        x = found.x if needed.x else None
        links: Any = found.links or (None,) * 3
        state = (found.hidden, found.cell, found.read, found.read_weights, memory, *links)
        return inputs_of(x, *weights, None, None, *state)  # type: ignore[no-any-return]


def recorded_accesses(run: Any) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, from the tape."""
    size, tape, ends = run.size, run.tape, run.ends
    rows = tape.rows[:, :, : size.R, : size.K].long()
    weights = tape.weights[:, :, : size.R, : size.K]
    unused = tape.unused[:, :, : size.R].long()
    alpha, gamma = (tape.interface[..., at : at + size.R] for at in (size.ALPHA_AT, size.GAMMA_AT))
    write_rows = torch.cat([rows[:-1], unused[..., None]], dim=-1)
    fresh = alpha * (1 - gamma)
    if size.FREE:
        fresh = fresh * tape.room[..., : size.R]
    write_weights = torch.cat([(alpha * gamma)[..., None] * weights[:-1], fresh[..., None]], dim=-1)
    past = (torch.arange(rows.shape[0] - 1, device=ends.device)[:, None] >= ends)[..., None, None]
    return [
        Access(WRITE, 0, write_rows.masked_fill(past, -1), write_weights),
        Access(READ, 0, rows[1:].masked_fill(past, -1), weights[1:].clone()),
    ]
