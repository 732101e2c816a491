"""The GPU engine: SAM and SDNC in Triton kernels, the dense models as CUDA graphs of their plain steps.

`sparsam.engines.cuda.program` runs a sequence over tensors, `sparsam.engines.cuda.kernels` are the kernels, and
`docs/notebook/gpu.md` says what they cost. The search visits the rows that were ever written, in codes first where a
scan is asked for and there are many.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.cuda import interpreted, why_no_triton
from sparsam.engines.cuda.links import from_dense_links
from sparsam.engines.cuda.memory import from_dense
from sparsam.engines.engine import Controller, Engine, Ran, check_sizes, converted_state, register, why_unknown
from sparsam.engines.feedforward import FEEDFORWARD, run_feedforward
from sparsam.engines.reference import ReferenceEngine, reference_fields
from sparsam.memories.memory import Memory
from sparsam.state import State

MOST_ACCESSES = 256  # rows of a step that a program compares with each other
MOST_LINKS = 128
DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # float16 of parameters, x and states; it computes in float32
DENSE = ("ntm", "dam", "dnc")

_plain = ReferenceEngine()


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
        from sparsam.engines.cuda import layout
        from sparsam.engines.cuda.dense import layout as dense

        sizes = memory.sizes
        if sizes is None:
            if memory.name not in DENSE:
                return f"it has no {memory.name.upper()}"
            if like.device.type == "cuda" or (dense.fits(memory) and like.dtype == torch.float32):
                return None
            return "Triton's interpreter has no CUDA graphs"
        reason = why_no_triton() or why_unknown(memory)
        if reason is not None:
            return reason
        if sizes.erase:
            return "it has no erase=True"
        if not searched(sizes.index):
            return f"it has exact search (index='linear') and scans ('scan', 'auto') only, not {sizes.index}"
        if like.dtype not in DTYPES:
            return f"it runs in float32, bfloat16 or float16, the parameters are {like.dtype}"
        if sizes.k_links > MOST_LINKS:
            return f"it has room for {MOST_LINKS} links to a row, not {sizes.k_links}"
        if layout.accesses_of(sizes.heads, sizes.k) > MOST_ACCESSES:
            return f"num_heads and k are too large together: it has room for {MOST_ACCESSES} accesses in a step"
        return None

    def fresh(self, memory: Any, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        if memory.sizes is None:
            return _plain.fresh(memory, batch, initial, like)
        from sparsam.engines.cuda import sparse

        return sparse.fresh(memory, batch, initial, like)

    def start(self, memory: Any, batch: int, like: Tensor) -> dict[str, Any]:
        if memory.sizes is None:
            return _plain.fresh(memory, batch, None, like)
        from sparsam.engines.cuda import sparse

        return sparse.start(memory, batch, like)

    def steps(self, memory: Any, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        if memory.sizes is None:
            return _plain.steps(memory, vectors, state, ends, record)
        from sparsam.engines.cuda import sparse

        return sparse.run(memory, None, vectors, state, ends, record)

    def sequence(
        self, memory: Any, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> Ran:
        from sparsam.engines.cuda import sparse
        from sparsam.engines.cuda.dense import sequence as dense

        if memory.sizes is None:
            return dense.run(memory, controller, x, state, ends, record)
        if controller.name == FEEDFORWARD:
            return run_feedforward(sparse.run, memory, controller, x, state, ends, record)
        return sparse.run(memory, controller, x, state, ends, record)

    def check(self, memory: Memory, state: Any) -> None:
        if memory.sizes is not None:
            super().check(memory, state)
            check_sizes(memory, state)

    def convert(self, state: State) -> State:
        return converted_state(state, cuda_fields)


def searched(index: indexes.Index) -> bool:
    """Whether this engine searches so: exactly, or by a scan of codes where there are many words."""
    inner = index.index if isinstance(index, indexes.Auto) else index
    return isinstance(inner, indexes.Linear | indexes.Scan)


def cuda_fields(state: Any) -> dict[str, Any]:
    memory, links = getattr(state, "memory", None), getattr(state, "links", None)
    if memory is None or isinstance(memory, Tensor) or memory.engine == "cuda":
        return {}
    plain = {"memory": memory, "links": links, **reference_fields(state)}
    fields: dict[str, Any] = {"memory": from_dense(plain["memory"])}
    if plain["links"] is not None:
        fields["links"] = from_dense_links(plain["links"])
    return fields


register(CudaEngine())
