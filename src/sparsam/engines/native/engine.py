"""The native engine: one C++ call runs a whole sequence forward, another backward, the memory written in place.

`docs/rollback.md` tells how the memory is taken back.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines import boundary
from sparsam.engines.engine import Controller, Engine, Ran, converted_state, register, why_unknown
from sparsam.engines.feedforward import FEEDFORWARD, run_feedforward
from sparsam.engines.native.call import NativeCall
from sparsam.engines.native.core import core_settings, missing
from sparsam.engines.native.core import native as _native
from sparsam.engines.native.links import NativeLinks, link_parts, links_from_dense
from sparsam.engines.native.memory import DTYPES, HALF, Kind, NativeMemory, fresh_memory, from_dense
from sparsam.engines.reference import reference_fields
from sparsam.memories.description import SparseSizes
from sparsam.memories.memory import Memory
from sparsam.state import State


class Prepared:
    """The description of a memory as the core takes it."""

    __slots__ = ("core", "heads", "kind", "sizes", "text", "width")

    def __init__(self, memory: Any, dtype: torch.dtype) -> None:
        sizes: SparseSizes = memory.sizes
        self.sizes, self.text, self.heads, self.width = sizes, memory.text, sizes.heads, sizes.width
        self.kind = Kind.of(sizes, dtype)
        self.core = None if torch.compiler.is_compiling() else core_sizes(sizes)  # a graph takes the `text`


@functools.lru_cache(maxsize=256)
def core_sizes(sizes: SparseSizes) -> _native.Sizes:
    reads = (sizes.rows, sizes.width, sizes.heads, sizes.k, _native.Similarity[sizes.similarity], sizes.least_access)
    links = (sizes.k_links, sizes.link_gradients and sizes.k_links > 0, sizes.allocation == "free")
    every: Any = (*reads, *links, core_settings(sizes.index), sizes.erase)
    return _native.Sizes(*every)


class NativeEngine(Engine):
    """SAM's and the SDNC's memory on the CPU in float32 or float64; parameters may be of half precision."""

    name = "native"
    rank = 1
    compiles = True
    answers = True
    clips = True
    fuses = () if _native is None else (*(name for name in _native.controllers if name != "none"), FEEDFORWARD)

    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        if _native is None:
            return f"the extension sparsam._native is not there ({missing})"
        reason = why_unknown(memory)
        if reason is not None:
            return reason
        index: Any = memory.sizes and memory.sizes.index
        if not (index.kind or isinstance(index, indexes.Linear | indexes.Auto)):
            return f"it has no index {index.name!r}"
        if like.device.type != "cpu":
            return f"it runs on the CPU, the parameters are on {like.device}"
        if like.dtype not in (*DTYPES, *HALF):
            return f"it runs in float16, bfloat16, float32 or float64, the parameters are {like.dtype}"
        return None

    def holds(self, dtype: torch.dtype) -> torch.dtype:
        return torch.float32 if dtype in HALF else dtype

    def prepare(self, memory: Any, dtype: torch.dtype) -> Prepared:
        return Prepared(memory, dtype)

    def fresh(self, memory: Any, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        fields = self.start(memory, batch, like)
        if initial is not None:
            fields["memory"] = made(memory.kind, batch, initial, like)
        return fields

    def start(self, memory: Any, batch: int, like: Tensor) -> dict[str, Any]:
        if torch.compiler.is_compiling():
            held = made(memory.kind, batch, None, like)
        else:
            held = NativeMemory(memory.kind, [None] * batch, [None] * batch)
        reads = (batch, memory.heads, memory.sizes.k)
        fields: dict[str, Any] = {
            "read": like.new_zeros(batch, memory.heads, memory.width),
            "read_rows": torch.full(reads, -1, dtype=torch.int64, device=like.device),
            "read_weights": like.new_zeros(reads),
            "memory": held,
        }
        if memory.kind.k_links:
            fields["links"] = NativeLinks(batch)
        return fields

    def steps(self, memory: Any, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        return self._run(memory, None, vectors, state, ends, record)

    def step(self, memory: Any, vector: Tensor, state: Any, active: Tensor | None, record: bool) -> Ran:
        if active is not None or record or vector.dtype in HALF or torch.compiler.is_compiling():
            return super().step(memory, vector, state, active, record)
        ran = self._run(memory, None, vector, state, None, False)
        return ran._replace(joint=ran.fields["read"])

    def check(self, memory: Any, state: Any) -> None:
        kind: Kind = memory.kind
        fits = type(state.memory) is NativeMemory and state.memory.kind == kind
        if fits and (not kind.k_links or type(state.links) is NativeLinks):
            return
        super().check(memory, state)
        if not isinstance(state.memory, NativeMemory):
            raise ValueError("state: expected one of engine 'native'; convert it with state.to(engine='native')")
        state.memory.check(kind)

    def sequence(
        self, memory: Any, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> Ran:
        if controller.name == FEEDFORWARD:
            return run_feedforward(self._run, memory, controller, x, state, ends, record)
        return self._run(memory, controller, x, state, ends, record)

    def _run(
        self, memory: Any, controller: Controller | None, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> Ran:
        """x (T, B, I), or without a controller the interface vectors (T, B, F), or those of one step (B, F)."""
        if x.dtype in HALF:
            if controller is not None:
                parts = singles(controller.weights), singles(controller.interface)
                controller = controller._replace(weights=parts[0], interface=parts[1], output=None)
            ran = self._run(memory, controller, x.float(), state, ends, record)
            return ran._replace(joint=ran.joint.to(x.dtype))
        if torch.compiler.is_compiling():
            from sparsam.engines.native import operators

            return operators.traced_run(memory, controller, x, state, ends, record)
        sizes: SparseSizes = memory.sizes
        held: NativeMemory = state.memory
        links = state.links.placeholder if sizes.k_links else None
        if sizes.link_gradients and links is None and held.from_compiled:
            raise RuntimeError("state: expected state.detach() of a compiled call with link_gradients=True")
        # As `settings_of`, which a call of one step would notice.
        named = (controller.name, controller.hidden, controller.clip or 0.0) if controller else ("none", 0, 0.0)
        call = NativeCall(sizes, memory.core, *named, state, ends, record)
        out = boundary.run(call, boundary.inputs(controller, x, state, held.placeholder, links))
        linked = NativeLinks(x.shape[-2], out.links) if sizes.k_links else None
        after = held.advanced(call.after, out.memory, call.pending)
        return Ran(out.joint, boundary.fields_after(out, call.rows, after, linked), call.accesses)

    def convert(self, state: State) -> State:
        half = any(isinstance(value, Tensor) and value.dtype in HALF for _, value in state.values())
        return converted_state(state.to(torch.float32) if half else state, native_fields)


def made(kind: Kind, batch: int, initial: Tensor | None, like: Tensor) -> NativeMemory:
    if not torch.compiler.is_compiling():
        return fresh_memory(batch, kind, initial)
    from sparsam.engines.native import operators

    return operators.traced_fresh(kind, batch, initial, like)


def native_fields(state: Any) -> dict[str, Any]:
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
    placeholder = None
    if links.predecessors.requires_grad:
        placeholder = links_from_dense(links)
    return {"memory": from_dense(plain["memory"], links.k_links, parts), "links": NativeLinks(len(parts), placeholder)}


def singles(parameters: tuple[Tensor, ...]) -> Any:
    return tuple(parameter.float() for parameter in parameters)


register(NativeEngine())
