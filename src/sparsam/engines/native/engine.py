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
from sparsam.engines.native import graph as graphs
from sparsam.engines.native.core import missing
from sparsam.engines.native.core import native as _native
from sparsam.engines.native.index import core_settings
from sparsam.engines.native.links import LinksFromDense, NativeLinks, link_parts
from sparsam.engines.native.memory import DTYPES, HALF, Kind, NativeMemory, fresh_memory, from_dense
from sparsam.engines.reference.engine import reference_fields
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory
from sparsam.state import State
from sparsam.trace import READ, WRITE, Access


@functools.lru_cache(maxsize=256)
def core_sizes(sizes: SparseSizes) -> Any:
    """The core's form of a description."""
    return _native.Sizes(
        sizes.rows,
        sizes.width,
        sizes.heads,
        sizes.k,
        getattr(_native.Similarity, sizes.similarity),
        sizes.delta,
        sizes.k_links,
        sizes.link_gradients and sizes.k_links > 0,
        sizes.allocation == "free",
        core_settings(sizes.index),
    )


class NativeEngine(Engine):
    """SAM's and the SDNC's memory on the CPU in float32 or float64; parameters may be of half precision."""

    name = "native"
    rank = 1
    compiles = True
    fuses = ("lstm", "gru")

    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        if _native is None:
            return f"the extension sparsam._native is not there ({missing})"
        if not isinstance(getattr(memory, "sizes", None), SparseSizes):
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

    def sequence(self, memory: Any, cell: Cell, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        return self._run(memory, cell, x, state, ends, record)

    def check(self, memory: Any, state: Any) -> None:
        super().check(memory, state)
        sizes: SparseSizes = memory.sizes
        if not isinstance(state.memory, NativeMemory):
            raise ValueError("state: expected one of engine 'native'; convert it with state.to(engine='native')")
        state.memory.check(sizes.rows, sizes.width, sizes.k_links, sizes.allocation)

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
        if sizes.link_gradients and state.links.graph is None and state.memory.from_graph:
            raise RuntimeError("state: expected state.detach() of a compiled call with link_gradients=True")
        call = NativeCall(sizes, cell, state, ends, record)
        links = state.links.graph if sizes.k_links else None
        weights: tuple[Any, ...] = (None,) * 6 if cell is None else (*cell.weights, *cell.interface)
        carried: tuple[Any, ...] = (None, None) if cell is None else (state.hidden, state.cell)
        rest: tuple[Any, ...] = (state.read, state.read_weights, state.memory.graph, links)
        inputs = Inputs._make((x, *weights, *carried, *rest))
        out = boundary.run(call, inputs)
        fields: dict[str, Any] = {
            "read": out.read,
            "read_rows": call.rows,
            "read_weights": out.read_weights,
            "memory": state.memory.advanced(call.after, out.memory),
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
    graph = None
    if links.predecessors.requires_grad:
        graph = LinksFromDense.apply(links.predecessors, links.successors, links.precedence)
    return {"memory": from_dense(plain["memory"], links.k_links, parts), "links": NativeLinks(len(parts), graph)}


def singles(parameters: tuple[Tensor, ...]) -> Any:
    """Parameters in float32."""
    return tuple(parameter.float() for parameter in parameters)


def array(tensor: Tensor | None) -> Any:
    """The numbers of a tensor for the core, which takes NumPy arrays; that costs a tenth of DLPack."""
    return None if tensor is None else tensor.detach().contiguous().numpy()


def tensor(array: Any) -> Any:
    """An array of the core as a tensor over the same memory; None for None."""
    return None if array is None else torch.from_numpy(array)


class NativeCall(boundary.Call):
    """One call of the core, and what it leaves behind beside the outputs."""

    engine = "native"

    def __init__(self, sizes: SparseSizes, cell: Cell | None, state: Any, ends: Tensor | None, record: bool) -> None:
        self.sizes, self.cell, self.record = sizes, cell, record
        self.read_rows = state.read_rows
        self.ends = None if ends is None else ends.numpy()
        self.versions = state.memory.materialised()
        self.after: list[Any] = []
        self.rows: Tensor | None = None
        self.accesses: list[Access] = []

    def forward(self, inputs: Inputs, differentiable: bool) -> Outputs:
        dtype, cell = inputs.x.dtype, self.cell
        for name, value in inputs._asdict().items():
            if value is not None and value.dtype != dtype:
                raise TypeError(f"{name}: expected dtype {dtype} like x, got {value.dtype}")
        run = _native.forward32 if dtype == torch.float32 else _native.forward64
        record = self._checked(
            run,
            core_sizes(self.sizes),
            getattr(_native.Cell, "none" if cell is None else cell.name),
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
        )
        self.after, self.rows = record.after, torch.from_numpy(record.rows)
        if self.record:
            self.accesses = traced(record.trace)
        graph = links = None
        if differentiable:
            self.tape = record
            self.versions = record.before
            batch, rows = inputs.x.shape[1], self.sizes.rows
            graph = graphs.stand_in(inputs.x, (batch, rows, self.sizes.width))
            if self.sizes.link_gradients:
                links = graphs.stand_in(inputs.x, (batch, 2 * rows + 1, rows))
        return Outputs(
            torch.from_numpy(record.joint),
            tensor(record.hidden),
            tensor(record.cell),
            torch.from_numpy(record.read),
            torch.from_numpy(record.weights),
            graph,
            links,
        )

    def _checked(self, run: Any, *arguments: Any) -> Any:
        """Call the core; what it says of the rows read last is said of the state."""
        try:
            return run(*arguments)
        except ValueError as error:
            for ours, theirs in (("rows0", "read_rows"), ("weights0", "read_weights")):
                if str(error).startswith(ours):
                    raise ValueError(f"state: {str(error).replace(ours, theirs)}") from None
            raise

    def backward(self, inputs: Inputs, gradients: Outputs, needed: Inputs) -> Inputs:
        record, self.tape = self.tape, None
        run = _native.backward32 if inputs.x.dtype == torch.float32 else _native.backward64
        found = run(
            record,
            *map(array, inputs[:7]),
            *map(array, gradients[:5]),
            *map(array, graphs.parts(gradients.memory)),
            *map(array, graphs.parts(gradients.links)),
            bool(needed.x),
            torch.get_num_threads(),
        )
        memory = links = None
        batch, rows = inputs.x.shape[1], self.sizes.rows
        if needed.memory:
            shape = (batch, rows, self.sizes.width)
            memory = graphs.sparse_rows(tensor(found.memory_at), tensor(found.memory_words), shape)
        if needed.links:
            shape = (batch, 2 * rows + 1, rows)
            links = graphs.sparse_rows(tensor(found.links_at), tensor(found.links_values), shape)
        names = ("x", "w_ih", "w_hh", "b_ih", "b_hh", "w_interface", "b_interface", "hidden", "cell", "read", "weights")
        return Inputs._make([*(tensor(getattr(found, name)) for name in names), memory, links])


def traced(trace: tuple[Any, ...]) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, over all steps."""
    read_rows, read_weights, write_rows, write_weights = map(torch.from_numpy, trace)
    return [Access(WRITE, 0, write_rows, write_weights), Access(READ, 0, read_rows, read_weights)]


register(NativeEngine())
