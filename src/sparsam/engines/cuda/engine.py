"""The GPU engine: SAM and SDNC in Triton kernels that run a whole sequence, one program per batch element.

`sparsam.engines.cuda.kernels` are the kernels, `docs/gpu.md` says what they cost. The memory is the reference's, a
dense tensor, so states go from one engine to the other; the search is exact and visits the rows that were ever written.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.bypass import bypass_mask
from sparsam.engines.cuda.layout import Layout
from sparsam.engines.cuda.links import SparseLinks, no_sparse_links
from sparsam.engines.cuda.sequence import Call, Sequence
from sparsam.engines.reference.access import READ, WRITE, Access
from sparsam.engines.whole_sequence import parameters
from sparsam.state import DenseMemory, State, dense_memory

MOST_ACCESSES = 256  # rows of a step that a program compares with each other


def interpreted() -> bool:
    """Whether Triton runs kernels on the CPU, step by step in Python (TRITON_INTERPRET=1): slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def why_not(model: Any) -> str | None:
    """It runs SAM and SDNC with exact search on an NVIDIA GPU in float32."""
    if model.name not in ("sam", "sdnc"):
        return f"it has no {type(model).__name__}"
    weight = model.output.weight
    if weight.device.type != "cuda" and not (model.engine == "cuda" and interpreted()):
        return f"it runs on a GPU, the parameters are on {weight.device}; move the model there with model.cuda()"
    if importlib.util.find_spec("triton") is None:
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
    if weight.dtype != torch.float32:
        return f"it runs in float32, the parameters are {weight.dtype}"
    if Layout.of(model).ACCESSES > MOST_ACCESSES:
        return f"num_heads and k are too large together: it has room for {MOST_ACCESSES} accesses in a step"
    return None


def initial_state(model: Any, batch_size: int, initial_memory: Tensor | None) -> State:
    fields: dict[str, Any] = model.controller_start(batch_size)
    weight = model.output.weight
    fields["memory"] = dense_memory(batch_size, model.memory_size, model.word_size, initial_memory, weight)
    if model.name == "sdnc":
        fields["links"] = no_sparse_links(batch_size, model.memory_size, model.k_links, weight)
    return model.state_class(**fields, start=model.state_class(**fields))


@torch.compiler.disable
def run(model: Any, x: Tensor, state: Any, lengths: Tensor | None, record: bool) -> tuple[Tensor, State, list[Access]]:
    """Run x (T, B, I) from `state`."""
    memory, links = state.memory, getattr(state, "links", None)
    if not isinstance(memory, DenseMemory) or not isinstance(links, SparseLinks | None):
        raise ValueError("state: expected one of engine 'cuda', got one of another engine")
    steps, batch, _ = x.shape
    ends = torch.full((batch,), steps) if lengths is None else lengths
    padded = int(ends.min()) < steps
    # A blank memory that no call has touched is one row, seen N times.
    fresh = memory.words.stride(0) == 0 and memory.last_access.stride(1) == 0 and not memory.start.any()
    call = Call(
        model,
        ends.to(device=x.device, dtype=torch.int32),
        padded,
        memory.last_access,
        memory.clock,
        fresh,
        () if links is None else links.tensors(),
        bypass_mask(model, x),
    )
    y, hidden, cell, read, rows, weights, words = Sequence.apply(
        call,
        x,
        *parameters(model),
        state.hidden,
        state.cell,
        state.read,
        state.read_rows,
        state.read_weights,
        memory.words,
    )
    after, call.after = call.after, {}  # what the state and the record need; the tape itself belongs to the graph
    kept = dataclasses.replace(memory, words=words, last_access=after["last_access"], clock=after["clock"])
    fields = {"hidden": hidden, "cell": cell, "read": read, "read_rows": rows, "read_weights": weights, "memory": kept}
    if links is not None:
        fields["links"] = SparseLinks(*after["links"])
    accesses = _accesses(model, after, call.ends) if record else []
    return y, dataclasses.replace(state, **fields), accesses


def _accesses(model: Any, after: dict[str, Any], ends: Tensor) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, from the tape."""
    size = Layout.of(model)
    rows = after["rows"][:, :, : size.R, : size.K].long()
    weights = after["weights"][:, :, : size.R, : size.K]
    unused = after["unused"][:, :, : size.R].long()
    gates = after["interface"][..., 2 * size.RW :]
    alpha = gates[..., size.RP : size.RP + size.R]
    gamma = gates[..., 2 * size.RP : 2 * size.RP + size.R]
    write_rows = torch.cat([rows[:-1], unused[..., None]], dim=-1)
    fresh = alpha * (1 - gamma)
    write_weights = torch.cat([(alpha * gamma)[..., None] * weights[:-1], fresh[..., None]], dim=-1)
    past = (torch.arange(rows.shape[0] - 1, device=ends.device)[:, None] >= ends)[..., None, None]
    return [
        Access(WRITE, 0, write_rows.masked_fill(past, -1), write_weights),
        Access(READ, 0, rows[1:].masked_fill(past, -1), weights[1:].clone()),
    ]
