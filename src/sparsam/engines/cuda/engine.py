"""The GPU engine: SAM and SDNC in Triton kernels that run a whole sequence, one program per batch element.

`sparsam.engines.cuda.kernels` are the kernels, `docs/gpu.md` says what they cost. The memory is the reference's, a
dense tensor, so states go from one engine to the other; the search is exact and visits the rows that were ever written.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.bypass import bypass_mask, masked_joint
from sparsam.engines.cuda import dense
from sparsam.engines.cuda.launch import interpreted
from sparsam.engines.cuda.layout import layout_of
from sparsam.engines.cuda.links import SparseLinks, no_sparse_links
from sparsam.engines.cuda.memory import CudaMemory, fresh_memory, from_dense
from sparsam.engines.cuda.program import Run
from sparsam.engines.cuda.sequence import Call, Sequence
from sparsam.engines.cuda.sizes import Sizes
from sparsam.engines.reference import loop as reference
from sparsam.engines.reference.access import READ, WRITE, Access
from sparsam.engines.whole_sequence import parameters
from sparsam.state import DenseMemory, State

MOST_ACCESSES = 256  # rows of a step that a program compares with each other


@lru_cache(maxsize=1)
def _triton_is_there() -> bool:
    return importlib.util.find_spec("triton") is not None


def why_not(model: Any) -> str | None:
    """It runs SAM and SDNC with exact search on an NVIDIA GPU, and the dense models as CUDA graphs."""
    if model.name not in ("sam", "sdnc", *dense.DENSE):
        return f"it has no {type(model).__name__}"
    weight = model.output.weight
    if weight.device.type != "cuda" and not (model.engine == "cuda" and interpreted()):
        return f"it runs on a GPU, the parameters are on {weight.device}; move the model there with model.cuda()"
    if model.name in dense.DENSE:
        if weight.device.type != "cuda":
            return "Triton's interpreter has no CUDA graphs, as which it runs the dense models"
        return "it has no bypass_dropout with CUDA graphs" if model.bypass_dropout and model.training else None
    if not _triton_is_there():
        return "it needs the package triton, which is not installed"
    options = model.options_in_use(besides=("bypass_dropout",))
    if options:
        return f"it has no {' and no '.join(options)}"
    if not indexes.is_exact(model.index):
        return f"it has exact search (index='linear') only, not {model.index}"
    if getattr(model, "link_gradients", False):
        return "it has no link_gradients=True"
    if getattr(model, "allocation", "ring") != "ring":
        return f"it has no allocation={model.allocation!r}"
    if weight.dtype not in (torch.float32, torch.bfloat16):
        return f"it runs in float32 or bfloat16, the parameters are {weight.dtype}"
    if layout_of(sizes_of(model), "lstm", model.hidden_size).ACCESSES > MOST_ACCESSES:
        return f"num_heads and k are too large together: it has room for {MOST_ACCESSES} accesses in a step"
    return None


def sizes_of(model: Any) -> Sizes:
    """The description of a model's memory."""
    return Sizes(
        model.memory_size,
        model.word_size,
        model.num_heads,
        model.k,
        model.similarity,
        model.delta,
        getattr(model, "k_links", 0),
        getattr(model, "link_gradients", False),
        getattr(model, "allocation", "ring"),
        model.index,
    )


def initial_state(model: Any, batch_size: int, initial_memory: Tensor | None) -> State:
    if model.name in dense.DENSE:
        return model.reference_state(batch_size, initial_memory)
    fields: dict[str, Any] = model.controller_start(batch_size)
    sizes, weight = sizes_of(model), model.output.weight
    fields["memory"] = fresh_memory(sizes, batch_size, initial_memory, weight)
    if model.name == "sdnc":
        there = fields["memory"].words.shape[1]
        fields["links"] = no_sparse_links(batch_size, there, sizes.rows, sizes.k_links, weight)
    return model.state_class(**fields, start=model.state_class(**fields))


@torch.compiler.disable
def run(model: Any, x: Tensor, state: Any, lengths: Tensor | None, record: bool) -> tuple[Tensor, State, list[Access]]:
    """Run x (T, B, I) from `state`."""
    if model.name in dense.DENSE:
        if record:
            return reference.run(model, x, state, lengths, record)
        return *dense.run(model, x, state, lengths), []
    memory, links = state.memory, getattr(state, "links", None)
    if isinstance(memory, DenseMemory):
        memory = from_dense(memory)
    if not isinstance(memory, CudaMemory) or not isinstance(links, SparseLinks | None):
        raise ValueError("state: expected one of engine 'cuda', got one of another engine")
    weights, output = parameters(model)[:6], model.output
    call = Call(sizes_of(model), "lstm", lengths, memory, links)
    joint, hidden, cell, read, rows, read_weights, words = Sequence.apply(
        call,
        x,
        *weights,
        state.hidden,
        state.cell,
        state.read,
        state.read_rows,
        state.read_weights,
        memory.words,
    )
    assert call.after is not None and call.run is not None
    y = torch.nn.functional.linear(masked_joint(joint, bypass_mask(model, x)), output.weight, output.bias)
    if lengths is not None:
        past = torch.arange(x.shape[0], device=x.device)[:, None] >= call.run.ends
        y = y.masked_fill(past[..., None], 0.0)
    kept = dataclasses.replace(call.after.memory, words=words)
    fields = {"hidden": hidden, "cell": cell, "read": read, "read_rows": rows, "read_weights": read_weights}
    if links is not None:
        fields["links"] = call.after.links
    accesses = _accesses(call.run) if record else []
    return y, dataclasses.replace(state, **fields, memory=kept), accesses


def _accesses(run: Run) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, from the tape."""
    size, tape, ends = run.size, run.tape, run.ends
    rows = tape.rows[:, :, : size.R, : size.K].long()
    weights = tape.weights[:, :, : size.R, : size.K]
    unused = tape.unused[:, :, : size.R].long()
    gates = tape.interface[..., 2 * size.R * size.W :]
    alpha, gamma = gates[..., size.R : 2 * size.R], gates[..., 2 * size.R : 3 * size.R]
    write_rows = torch.cat([rows[:-1], unused[..., None]], dim=-1)
    fresh = alpha * (1 - gamma)
    write_weights = torch.cat([(alpha * gamma)[..., None] * weights[:-1], fresh[..., None]], dim=-1)
    past = (torch.arange(rows.shape[0] - 1, device=ends.device)[:, None] >= ends)[..., None, None]
    return [
        Access(WRITE, 0, write_rows.masked_fill(past, -1), write_weights),
        Access(READ, 0, rows[1:].masked_fill(past, -1), weights[1:].clone()),
    ]
