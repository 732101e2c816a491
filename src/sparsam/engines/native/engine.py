"""The native engine: one C++ call runs a whole sequence forward, another backward, the memory written in place.

`docs/rollback.md` tells how the memory is taken back.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import Inputs, Outputs
from sparsam.engines.engine import Cell, Engine, Ran, converted_state, register
from sparsam.engines.feedforward import FEEDFORWARD, run_feedforward
from sparsam.engines.native import stand_ins
from sparsam.engines.native.arrays import Run, array, called, tensor
from sparsam.engines.native.core import missing
from sparsam.engines.native.core import native as _native
from sparsam.engines.native.index import core_settings
from sparsam.engines.native.links import LinksFromDense, NativeLinks, link_parts
from sparsam.engines.native.memory import DTYPES, HALF, Kind, NativeMemory, fresh_memory, from_dense
from sparsam.engines.native.step import StepCall, StepInputs
from sparsam.engines.reference.engine import reference_fields
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory
from sparsam.state import State
from sparsam.trace import READ, WRITE, Access


@functools.lru_cache(maxsize=256)
def core_sizes(sizes: SparseSizes) -> _native.Sizes:
    """The core's form of a description."""
    return _native.Sizes(
        sizes.rows,
        sizes.width,
        sizes.heads,
        sizes.k,
        _native.Similarity[sizes.similarity],
        sizes.delta,
        sizes.k_links,
        sizes.link_gradients and sizes.k_links > 0,
        sizes.allocation == "free",
        core_settings(sizes.index),
    )


@functools.lru_cache(maxsize=16)
def core_cell(name: str) -> _native.Cell:
    return _native.Cell[name]


class NativeEngine(Engine):
    """SAM's and the SDNC's memory on the CPU in float32 or float64; parameters may be of half precision."""

    name = "native"
    rank = 1
    compiles = True
    answers = True
    fuses = () if _native is None else (*(cell.name for cell in _native.Cell if cell.name != "none"), FEEDFORWARD)

    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        if _native is None:
            return f"the extension sparsam._native is not there ({missing})"
        if memory.sizes is None:
            return f"it has no {memory.name.upper()}"
        options = [f"{name}={value}" for name, value in memory.options().items()]
        if options:
            return f"it has no {' and no '.join(options)}"
        if like.device.type != "cpu":
            return f"it runs on the CPU, the parameters are on {like.device}"
        if like.dtype not in (*DTYPES, *HALF):
            return f"it runs in float16, bfloat16, float32 or float64, the parameters are {like.dtype}"
        return None

    def holds(self, dtype: torch.dtype) -> torch.dtype:
        return torch.float32 if dtype in HALF else dtype

    def fresh(self, memory: Any, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        sizes: SparseSizes = memory.sizes
        kind = Kind(sizes.rows, sizes.width, sizes.k_links, sizes.allocation, like.dtype)
        if torch.compiler.is_compiling():
            from sparsam.engines import ops

            held = ops.traced_fresh(kind, batch, initial, like)
        else:
            held = fresh_memory(batch, kind, initial)
        fields = {**memory.no_read(batch, like), "memory": held}
        if sizes.k_links:
            fields["links"] = NativeLinks(batch)
        return fields

    def steps(self, memory: Any, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        return self._run(memory, None, vectors, state, ends, record)

    def step(self, memory: Any, vector: Tensor, state: Any, active: Tensor | None, record: bool) -> Ran:
        if active is not None or record or vector.dtype in HALF or torch.compiler.is_compiling():
            return super().step(memory, vector, state, active, record)
        sizes: SparseSizes = memory.sizes
        links = state.links.stand_in if sizes.k_links else None
        refuse_lost_links(sizes, state)
        call = StepCall(sizes, core_sizes(sizes), state)
        out = boundary.run(call, StepInputs(vector, state.read_weights, state.memory.stand_in, links))
        fields: dict[str, Any] = {
            "read": out.read,
            "read_rows": call.rows,
            "read_weights": out.read_weights,
            "memory": state.memory.advanced(call.after, out.memory, call.pending),
        }
        if sizes.k_links:
            fields["links"] = NativeLinks(vector.shape[0], out.links)
        return Ran(out.read, fields, ())

    def sequence(self, memory: Any, cell: Cell, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if cell.name == FEEDFORWARD:
            return run_feedforward(self._run, memory, cell, x, state, ends, record)
        return self._run(memory, cell, x, state, ends, record)

    _fitted: tuple[Any, Any] = (None, None)  # the last kind of memory and sizes that were found to fit

    def check(self, memory: Any, state: Any) -> None:
        sizes: SparseSizes = memory.sizes
        kind, known = self._fitted
        # Both are values that are handed on from state to state: the same two objects fit again.
        same = sizes is known and type(state.memory) is NativeMemory and state.memory.kind is kind
        if same and (not sizes.k_links or type(state.links) is NativeLinks):
            return
        super().check(memory, state)
        if not isinstance(state.memory, NativeMemory):
            raise ValueError("state: expected one of engine 'native'; convert it with state.to(engine='native')")
        state.memory.check(sizes.rows, sizes.width, sizes.k_links, sizes.allocation)
        self._fitted = state.memory.kind, sizes

    def _run(self, memory: Any, cell: Cell | None, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if x.dtype in HALF:
            if cell is not None:
                cell = Cell(cell.name, cell.hidden, singles(cell.weights), singles(cell.interface))
            ran = self._run(memory, cell, x.float(), state, ends, record)
            return ran._replace(joint=ran.joint.to(x.dtype))
        if torch.compiler.is_compiling():
            from sparsam.engines import ops

            return ops.traced_run(memory, cell, x, state, ends, record)
        sizes: SparseSizes = memory.sizes
        refuse_lost_links(sizes, state)
        call = NativeCall(sizes, cell, state, ends, record)
        links = state.links.stand_in if sizes.k_links else None
        weights: tuple[Any, ...] = (None,) * 6 if cell is None else (*cell.weights, *cell.interface)
        carried: tuple[Any, ...] = (None, None) if cell is None else (state.hidden, state.cell)
        output: tuple[Any, ...] = (None, None) if cell is None or cell.output is None else cell.output
        rest: tuple[Any, ...] = (state.read, state.read_weights, *output, state.memory.stand_in, links)
        inputs = Inputs._make((x, *weights, *carried, *rest))
        out = boundary.run(call, inputs)
        fields: dict[str, Any] = {
            "read": out.read,
            "read_rows": call.rows,
            "read_weights": out.read_weights,
            "memory": state.memory.advanced(call.after, out.memory, call.pending),
        }
        if cell is not None:
            fields["hidden"] = out.hidden
            if out.cell is not None:
                fields["cell"] = out.cell
        if sizes.k_links:
            fields["links"] = NativeLinks(x.shape[1], out.links)
        return Ran(out.joint, fields, call.accesses)

    def convert(self, state: State) -> State:
        half = any(isinstance(value, Tensor) and value.dtype in HALF for _, value in state.values())
        return converted_state(state.to(torch.float32) if half else state, native_fields)


def refuse_lost_links(sizes: SparseSizes, state: Any) -> None:
    """Links have no gradient from an eager call into a compiled one."""
    if sizes.link_gradients and state.links.stand_in is None and state.memory.from_compiled:
        raise RuntimeError("state: expected state.detach() of a compiled call with link_gradients=True")


def native_fields(state: Any) -> dict[str, Any]:
    """The stores of a state as the native engine holds them."""
    if getattr(state, "memory", None) is None or isinstance(state.memory, Tensor):
        raise ValueError(f"engine: expected 'reference' for a {type(state).__name__}, got 'native', which has none")
    if isinstance(state.memory, NativeMemory):
        state.memory.named()  # so that a compiled call can take it
        return {}
    plain = {"memory": state.memory, "links": getattr(state, "links", None), **reference_fields(state)}
    links = plain["links"]
    if links is None:
        batch = state.memory.shape[0]
        return {"memory": from_dense(plain["memory"], 0, [{} for _ in range(batch)])}
    parts = link_parts(links)
    stand_in = None
    if links.predecessors.requires_grad:
        stand_in = LinksFromDense.apply(links.predecessors, links.successors, links.precedence)
    return {"memory": from_dense(plain["memory"], links.k_links, parts), "links": NativeLinks(len(parts), stand_in)}


def singles(parameters: tuple[Tensor, ...]) -> Any:
    """Parameters in float32."""
    return tuple(parameter.float() for parameter in parameters)


class NativeCall(boundary.Call):
    """One call of the core, and what it leaves behind beside the outputs."""

    engine = "native"

    def __init__(self, sizes: SparseSizes, cell: Cell | None, state: Any, ends: Tensor | None, record: bool) -> None:
        self.sizes, self.cell, self.record = sizes, cell, record
        self.read_rows = state.read_rows
        self.ends = None if ends is None else ends.numpy()
        self.versions = state.memory.for_call()
        self.source = getattr(state.memory, "pending", None)  # where the gradient of the memory goes
        self.pending: Any = None  # where that of the memory left comes from
        self.after: Any = None
        self.rows: Tensor | None = None
        self.accesses: list[Access] = []

    def forward(self, inputs: Inputs, differentiable: bool) -> Outputs:
        dtype, cell = inputs.x.dtype, self.cell
        for value, name in zip(inputs, inputs._fields):
            if value is not None and value.dtype != dtype:
                raise TypeError(f"{name}: expected dtype {dtype} like x, got {value.dtype}")
        run = _native.forward32 if dtype == torch.float32 else _native.forward64
        record = called(
            run,
            core_sizes(self.sizes),
            core_cell("none" if cell is None else cell.name),
            0 if cell is None else cell.hidden,
            *map(array, inputs[:9]),
            array(inputs.read),
            array(self.read_rows),
            array(inputs.read_weights),
            self.ends,
            self.versions,
            differentiable,
            self.record,
            torch.get_num_threads(),
            array(inputs.w_output),
            array(inputs.b_output),
        )
        joint, hidden, inner, read, weights, rows = map(tensor, record.outputs())
        self.after, self.rows = record.versions_after, rows
        if self.record:
            self.accesses = traced(record.trace)
        memory = links = None
        if differentiable:
            self.tape = record
            self.versions = record.versions_before
            if self.pending is None:
                self.pending = (_native.Pending32 if dtype == torch.float32 else _native.Pending64)()
            batch, rows = inputs.x.shape[1], self.sizes.rows
            memory = stand_ins.stand_in(inputs.x, (batch, rows, self.sizes.width))
            if self.sizes.link_gradients:
                links = stand_ins.stand_in(inputs.x, (batch, 2 * rows + 1, rows))
        return Outputs(joint, hidden, inner, read, weights, memory, links)

    def backward(self, inputs: Inputs, gradients: Outputs, needed: Inputs) -> Inputs:
        record, self.tape = self.tape, None
        run: Run = _native.backward32 if inputs.x.dtype == torch.float32 else _native.backward64
        backward_pass = torch._C._current_graph_task_id()
        source = self.source if backward_pass >= 0 else None
        found = run(
            record,
            *map(array, inputs[:7]),
            *map(array, gradients[:5]),
            *map(array, stand_ins.parts(gradients.memory)),
            *map(array, stand_ins.parts(gradients.links)),
            bool(needed.x),
            torch.get_num_threads(),
            bool(needed.memory),
            self.pending,
            source,
            backward_pass,
            array(inputs.w_output),
            array(inputs.b_output),
        )
        memory = links = None
        batch, rows = inputs.x.shape[1], self.sizes.rows
        if needed.memory:
            shape = (batch, rows, self.sizes.width)
            memory = stand_ins.memory_gradient(source, found.memory_at, found.memory_words, shape, inputs.x.dtype)
        if needed.links:
            shape = (batch, 2 * rows + 1, rows)
            links = stand_ins.sparse_rows(tensor(found.links_at), tensor(found.links_values), shape)
        result = Inputs._make((*map(tensor, found.outputs()), memory, links))
        if gradients.joint is None:  # nobody used y: an output layer that was not used has no gradient, as in torch
            result = result._replace(w_output=None, b_output=None)
        return result


def traced(trace: tuple[Any, ...]) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, over all steps."""
    read_rows, read_weights, write_rows, write_weights = map(torch.from_numpy, trace)
    return [Access(WRITE, 0, write_rows, write_weights), Access(READ, 0, read_rows, read_weights)]


register(NativeEngine())
