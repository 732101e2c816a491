"""Launching the two kernels: what they are compiled for, and their arguments in order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.cuda.layout import Layout
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.cuda.tape import Tape
from sparsam.engines.cuda.weights import Packed

SIZES = ("CELL", "H", "J", "F", "R", "K", "W", "HP", "GP", "FP", "RP", "KP", "WP", "KL")  # what both are compiled for
FORWARD_SIZES = (*SIZES, "FS", "SIZE", "ACCESSES", "KLP", "CP", "CHANGED")
BACKWARD_SIZES = (*SIZES, "JS", "HS", "JP")
PRODUCT, STAGES = 8192, 4  # numbers of a matrix multiplied together; blocks of them on their way
SEARCH, WARPS = 128, 8  # rows of the memory looked at together; warps of a program
SEARCH_LINKED, LINKED = 64, 4  # the same with links; rows of P changed together, per warp. More do not fit the
# registers, and the code not its cache.


def no_tensor(like: Tensor) -> Tensor:
    """In place of a tensor that a kernel does not look at."""
    return torch.empty(0, dtype=torch.float32, device=like.device)


def launch_forward(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: Packed | None,
    memory: CudaMemory,
    links: SparseLinks | None,
    ends: Tensor,
    ends_of_state: tuple[Tensor, ...] | None = None,
    between: tuple[int, int] | None = None,
    part: str = "all",
    partial: Tensor | None = None,
    scratch: tuple[Tensor, ...] | None = None,
    warps: int = WARPS,
) -> None:
    """Run steps `between` (all of them by default). Without matrices there is no controller.

    `ends_of_state`: the state's five tensors before the first step and after the last, which the kernel then reads and
    writes. `part` of a step: "all", "write" or "read"; a "read" may find the keys of its search in `partial`.
    """
    from sparsam.engines.cuda.kernels.forward import forward as kernel

    steps, batch = tape.unused.shape[:2]
    rows = memory.words.shape[1]
    none = no_tensor(tape.joint)
    linked = (none,) * 6 if links is None else links.tensors()
    scratch = new_scratch(size, batch, rows, none) if scratch is None else scratch
    streamed = (none,) * 4
    if matrices is not None:
        streamed = (
            matrices.recurrent_transposed,
            matrices.recurrent_bias,
            matrices.asking_transposed,
            matrices.asking_bias,
        )
    constants = size.constants(FORWARD_SIZES)
    if matrices is None:
        constants["CELL"] = "none"
    begin, end = (0, steps) if between is None else between
    kernel[(batch,)](
        *tape.tensors(),
        *streamed,
        memory.words,
        memory.last_access,
        memory.counters,
        memory.queue_rows,
        memory.queue_stamps,
        *linked,
        *scratch,
        none if partial is None else partial,
        *((none,) * 10 if ends_of_state is None else ends_of_state),
        ends,
        begin,
        end,
        steps,
        batch,
        rows,
        memory.queue_rows.shape[1],
        sizes.delta,
        **constants,
        SIMILARITY=sizes.similarity,
        PRODUCT=PRODUCT,
        STAGES=STAGES,
        SEARCH=SEARCH_LINKED if size.KL else SEARCH,
        LINKED=LINKED * warps,
        WRITE=part != "read",
        READ=part != "write",
        SPLITS=0 if partial is None else partial.shape[1],
        ENDS=ends_of_state is not None,
        num_warps=warps,
    )


def new_scratch(size: Layout, batch: int, rows: int, like: Tensor) -> tuple[Tensor, ...]:
    """Room that the links need during a step."""
    if not size.KL:
        return (like,) * 4
    counts: dict[str, Any] = {"dtype": torch.int32, "device": like.device}
    candidates = torch.empty(batch, size.RP, size.CP, **counts)
    return (
        torch.empty(batch, rows, **counts),
        torch.empty(batch, size.CHANGED, **counts),
        candidates,
        torch.empty(candidates.shape, dtype=torch.float32, device=like.device),
    )


def launch_backward(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: Packed | None,
    handed: tuple[Tensor, ...],
    ends: Tensor,
    between: tuple[int, int] | None = None,
    warps: int = WARPS,
) -> None:
    """Run steps `between` backward; gates and interface of the tape become their gradients.

    `handed`: gradients of [h, r] at every step and of the final state, those of the state before the first step (filled
    here), and of the memory (in place).
    """
    from sparsam.engines.cuda.kernels.backward import backward as kernel

    steps, batch = tape.unused.shape[:2]
    none = no_tensor(tape.joint)
    constants = size.constants(BACKWARD_SIZES)
    if matrices is None:
        constants["CELL"] = "none"
    begin, end = (0, steps) if between is None else between
    kernel[(batch,)](
        *tape.tensors(),
        *((none, none) if matrices is None else (matrices.recurrent, matrices.asking)),
        *handed,
        ends,
        begin,
        end,
        steps,
        batch,
        handed[-1].shape[1],
        **constants,
        SIMILARITY=sizes.similarity,
        PRODUCT=PRODUCT,
        STAGES=STAGES,
        num_warps=warps,
    )
