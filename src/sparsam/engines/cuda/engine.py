"""The GPU engine: SAM and SDNC in Triton kernels, the dense models as CUDA graphs of their plain steps.

`sparsam.engines.cuda.program` runs a sequence over tensors, `sparsam.engines.cuda.kernels` are the kernels, and
`docs/notebook/gpu.md` says what they cost. The search visits the rows that were ever written, in codes first where a
scan is asked for and there are many.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import weakref
from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines import boundary
from sparsam.engines.boundary import Inputs, Outputs, inputs_of
from sparsam.engines.cuda import dense, dense_layout, operators, program, streaming
from sparsam.engines.cuda.launch import interpreted
from sparsam.engines.cuda.layout import accesses_of
from sparsam.engines.cuda.links import from_dense_links, no_sparse_links
from sparsam.engines.cuda.memory import fresh_memory, from_dense
from sparsam.engines.cuda.weights import Weights
from sparsam.engines.engine import Cell, Engine, Ran, converted_state, register
from sparsam.engines.feedforward import FEEDFORWARD, run_feedforward
from sparsam.engines.reference import ReferenceEngine, reference_fields
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory
from sparsam.state import State
from sparsam.trace import READ, WRITE, Access

MOST_ACCESSES = 256  # rows of a step that a program compares with each other
MOST_LINKS = 128
DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # float16 of parameters, x and states; it computes in float32
TRITON_IS_THERE = importlib.util.find_spec("triton") is not None

MOST_STARTS = 8  # kept of one memory, by batch size

_plain = ReferenceEngine()
_starts: weakref.WeakKeyDictionary[Memory, dict[Any, tuple[dict[str, Any], list[tuple[Tensor, int]]]]]
_starts = weakref.WeakKeyDictionary()


class CudaEngine(Engine):
    """SAM's and the SDNC's memory on an NVIDIA GPU, and the dense memories there."""

    name = "cuda"
    rank = 2
    compiles = True
    clips = True
    fuses = ("lstm", "gru", FEEDFORWARD)

    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        if like.device.type != "cuda" and not (by_name and interpreted()):
            return f"it runs on a GPU, the parameters are on {like.device}; move the model there with model.cuda()"
        sizes = sparse_sizes(memory)
        if sizes is None:
            if memory.name not in dense.DENSE:
                return f"it has no {memory.name.upper()}"
            if like.device.type == "cuda" or (dense_layout.fits(memory) and like.dtype == torch.float32):
                return None
            return "Triton's interpreter has no CUDA graphs"
        if not TRITON_IS_THERE:
            return "it needs the package triton, which is not installed"
        options = [f"{name}={value}" for name, value in memory.options().items()]
        if options:
            return f"it has no {' and no '.join(options)}"
        if sizes.erase:
            return "it has no erase=True"
        if not searched(sizes.index):
            return f"it has exact search (index='linear') and scans ('scan', 'auto') only, not {sizes.index}"
        if like.dtype not in DTYPES:
            return f"it runs in float32, bfloat16 or float16, the parameters are {like.dtype}"
        if sizes.k_links > MOST_LINKS:
            return f"it has room for {MOST_LINKS} links to a row, not {sizes.k_links}"
        if accesses_of(sizes.heads, sizes.k) > MOST_ACCESSES:
            return f"num_heads and k are too large together: it has room for {MOST_ACCESSES} accesses in a step"
        return None

    def fresh(self, memory: Any, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        sizes = sparse_sizes(memory)
        if sizes is None:
            return _plain.fresh(memory, batch, initial, like)
        held = fresh_memory(sizes, batch, None if initial is None else initial.clone(), like)
        fields = {**memory.no_read(batch, like), "memory": held}
        if sizes.k_links:
            fields["links"] = no_sparse_links(batch, held.words.shape[1], sizes.rows, sizes.k_links, like)
        return fields

    def start(self, memory: Any, batch: int, like: Tensor) -> dict[str, Any]:
        """Kept from call to call, until somebody writes to one of the tensors."""
        if torch.compiler.is_compiling() or sparse_sizes(memory) is None or not lasting(like):
            return self.fresh(memory, batch, None, like)
        known = _starts.setdefault(memory, {})
        key = (batch, like.device, like.dtype, stream_of(like))
        if key not in known or any(value._version != version for value, version in known[key][1]):
            while len(known) >= MOST_STARTS:
                del known[next(iter(known))]
            fields = self.fresh(memory, batch, None, like)
            links = fields["links"].tensors() if "links" in fields else ()
            tensors = (fields["read"], fields["read_rows"], fields["read_weights"], *fields["memory"].tensors(), *links)
            if any(type(value) is not Tensor for value in tensors):  # of a mode that makes tensors of its own kind
                return fields
            known[key] = fields, [(value, value._version) for value in tensors]
        return known[key][0]

    def steps(self, memory: Any, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if sparse_sizes(memory) is None:
            return _plain.steps(memory, vectors, state, ends, record)
        return self._run(memory, None, vectors, state, ends, record)

    def sequence(self, memory: Any, cell: Cell, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if sparse_sizes(memory) is None:
            return dense.run(memory, cell, x, state, ends, record)
        if cell.name == FEEDFORWARD:
            return run_feedforward(self._run, memory, cell, x, state, ends, record)
        return self._run(memory, cell, x, state, ends, record)

    def check(self, memory: Memory, state: Any) -> None:
        if sparse_sizes(memory) is not None:
            super().check(memory, state)

    def _run(self, memory: Any, cell: Cell | None, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if x.dtype == torch.float16:
            return self._run_in_singles(memory, cell, x, state, ends, record)
        if torch.compiler.is_compiling():
            return operators.traced_run(memory, cell, x, state, ends, record)
        if x.shape[0] == 1 and ends is None and not record and not torch.is_grad_enabled():
            ran = streaming.run(memory, cell, x, state)
            if ran is not None:
                return ran
        call = CudaCall(memory.sizes, cell, state, ends)
        links = state.links.weights() if memory.sizes.link_gradients and memory.sizes.k_links else ()
        out = boundary.run(call, boundary.inputs(cell, x, state, state.memory.words, *links))
        assert call.after is not None and out.memory is not None
        held = call.after.memory
        fields: dict[str, Any] = {
            "read": out.read,
            "read_rows": call.after.read_rows,
            "read_weights": out.read_weights,
            "memory": held if out.memory is held.words else dataclasses.replace(held, words=out.memory),
        }
        if out.hidden is not None:
            fields["hidden"] = out.hidden
        if out.cell is not None:
            fields["cell"] = out.cell
        if call.after.links is not None:
            linked = out.links is not None
            fields["links"] = call.after.links.with_weights(*out[6:9]) if linked else call.after.links
        accesses = traced(call.run) if record else []
        call.after, call.run = None, None  # what the state needs; the tape itself belongs to the graph
        return Ran(out.joint, fields, accesses)

    def _run_in_singles(
        self, memory: Any, cell: Cell | None, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> Ran:
        """A run in float32 from and to float16: the kernels' own sums would leave its range."""
        if cell is not None:
            parameters = [tuple(each.float() for each in part) for part in (cell.weights, cell.interface)]
            cell = Cell(cell.name, cell.hidden, *parameters, clip=cell.clip)  # type: ignore[arg-type, misc]
        held = {name: getattr(state, name) for name in ("hidden", "cell", "read", "read_weights")}
        singles = {name: value.float() for name, value in held.items() if value is not None}
        ran = self._run(memory, cell, x.float(), state.with_fields(**singles), ends, record)
        back = {name: ran.fields[name].to(x.dtype) for name in singles if name in ran.fields}
        return Ran(ran.joint.to(x.dtype), {**ran.fields, **back}, ran.accesses)

    def convert(self, state: State) -> State:
        return converted_state(state, cuda_fields)


def lasting(like: Tensor) -> bool:
    """Whether tensors made now can be used in any later call."""
    if torch.is_inference_mode_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (like.is_cuda and torch._C._cuda_isCurrentStreamCapturing())


def stream_of(like: Tensor) -> int:
    """The stream that work on the device of `like` goes to."""
    return torch._C._cuda_getCurrentRawStream(like.device.index) if like.is_cuda else 0


def searched(index: indexes.Index) -> bool:
    """Whether this engine searches so: exactly, or by a scan of codes where there are many words."""
    inner = index.index if isinstance(index, indexes.Auto) else index
    return isinstance(inner, indexes.Linear | indexes.Scan)


def sparse_sizes(memory: Memory) -> SparseSizes | None:
    """The description of a sparse memory; None for a dense one."""
    return memory.sizes


def cuda_fields(state: Any) -> dict[str, Any]:
    """The stores of a state as this engine holds them."""
    memory, links = getattr(state, "memory", None), getattr(state, "links", None)
    if memory is None or isinstance(memory, Tensor) or memory.engine == "cuda":
        return {}
    plain = {"memory": memory, "links": links, **reference_fields(state)}
    fields: dict[str, Any] = {"memory": from_dense(plain["memory"])}
    if plain["links"] is not None:
        fields["links"] = from_dense_links(plain["links"])
    return fields


class CudaCall(boundary.Call):
    """One call of the kernels, and what it leaves behind beside the outputs."""

    engine = "cuda"

    def __init__(self, sizes: SparseSizes, cell: Cell | None, state: Any, ends: Tensor | None) -> None:
        self.sizes, self.cell, self.ends = sizes, cell, ends
        self.read_rows, self.memory = state.read_rows, state.memory.detach()
        links = getattr(state, "links", None)
        self.links = None if links is None else links.detach()
        self.clip = None if cell is None else cell.clip
        self.after: program.Before | None = None
        self.run: program.Run | None = None

    def forward(self, inputs: Inputs, differentiable: bool) -> Outputs:
        weights = None if self.cell is None else Weights(*inputs[1:7])  # type: ignore[arg-type]
        before = program.Before(
            inputs.hidden, inputs.cell, inputs.read, self.read_rows, inputs.read_weights, self.memory, self.links
        )
        name = "none" if self.cell is None else self.cell.name
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


def traced(run: Any) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, from the tape."""
    size, tape, ends = run.size, run.tape, run.ends
    rows = tape.rows[:, :, : size.R, : size.K].long()
    weights = tape.weights[:, :, : size.R, : size.K]
    unused = tape.unused[:, :, : size.R].long()
    gates = tape.interface[..., 2 * size.R * size.W :]
    alpha, gamma = gates[..., size.R : 2 * size.R], gates[..., 2 * size.R : 3 * size.R]
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


register(CudaEngine())
