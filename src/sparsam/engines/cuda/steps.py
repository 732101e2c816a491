"""Steps launched one by one: for many batch elements, and for memories that one program would search too long.

A program that runs a whole sequence streams all weights for one element and searches alone. Here torch multiplies for
all elements at once, and a search can be split over many programs. The price is a few launches per step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.cuda.launch import (
    backward_launch,
    cells_launch,
    encoded,
    forward_launch,
    new_scratch,
    no_tensor,
    search_launch,
)
from sparsam.engines.cuda.layout import Layout, power_of_two
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.cuda.tape import Tape
from sparsam.engines.cuda.weights import Packed

MANY_ELEMENTS = 264  # two per multiprocessor of an H200
LONG_SEARCH = 4096  # rows there
PROGRAMS = 528  # of a split search
LEAST_PART, MOST_PARTS = 512, 128  # rows of a part of a search; parts
SEARCH_WARPS = 8
WARPS = 4


def pays(size: Layout, batch: int, memory: CudaMemory) -> bool:
    """Whether steps launched one by one are the faster way."""
    return batch > MANY_ELEMENTS or memory.words.shape[1] > LONG_SEARCH


def pays_backward(batch: int) -> bool:
    """The same for the backward pass, which searches for nothing."""
    return batch > MANY_ELEMENTS


def parts_of_search(batch: int, rows: int) -> int:
    """Programs that search for one element, a power of two; 0 when one is enough."""
    parts = min(PROGRAMS // batch, rows // LEAST_PART, MOST_PARTS)
    return 0 if parts < 2 else power_of_two(parts + 1) // 2


def sketched(sizes: Any, rows: int) -> bool:
    """Whether a split search over so many rows looks at codes first."""
    index = sizes.index
    if indexes.is_exact(index) or sizes.similarity != "cosine":
        return False
    return rows > (index.exact_until if isinstance(index, indexes.Auto) else index.checks)


def forward(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: Packed | None,
    given: list[Tensor],
    memory: CudaMemory,
    links: SparseLinks | None,
    ends: Tensor,
    padded: bool,
    parts: int | None = None,
) -> list[Tensor]:
    """All steps; returns the state's hidden, cell, read, read_rows and read_weights after the last."""
    steps, batch = tape.unused.shape[:2]
    rows = memory.words.shape[1]
    parts = parts_of_search(batch, rows) if parts is None else parts
    if parts:
        return _with_split_search(sizes, size, tape, matrices, given, memory, links, ends, parts)
    units, none = size.H, no_tensor(tape.joint)
    _begin(size, tape, given)
    if matrices is not None:
        matrices = Packed(*(matrix.to(torch.float32) for matrix in matrices))
        if size.CELL == "gru":
            tape.gates[..., 3 * units :] = 0
        tape.gates.add_(matrices.recurrent_bias)
        recurrent, asking = matrices.recurrent_transposed, matrices.asking_transposed[:, : size.F]
        hidden, joint, sums, asked = (
            value.unbind(0) for value in (tape.joint[1:, :, :units], tape.joint, tape.gates, tape.interface)
        )
        run_cells = cells_launch(size, tape, (), ends)
    scratch = new_scratch(size, batch, none)
    run_step = forward_launch(sizes, size, tape, None, memory, links, ends, scratch=scratch, warps=WARPS)
    for t in range(steps):
        if matrices is not None:
            sums[t].addmm_(joint[t], recurrent)
            run_cells(t)
            torch.addmm(matrices.asking_bias, hidden[t], asking, out=asked[t])
        run_step(t, t + 1)
    return [new.to(old.dtype) for new, old in zip(_end(size, tape, ends, padded), given)]


def _with_split_search(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: Packed | None,
    given: list[Tensor],
    memory: CudaMemory,
    links: SparseLinks | None,
    ends: Tensor,
    parts: int,
) -> list[Tensor]:
    """Two launches a step: all that one program does for an element, and the search, which many share."""
    steps, batch = tape.unused.shape[:2]
    rows = memory.words.shape[1]
    codes = encoded(size, memory.words) if sketched(sizes, rows) else None
    partial = torch.empty(batch, parts, size.RP, size.KP, dtype=torch.int64, device=tape.joint.device)
    final = [torch.empty_like(value) for value in given]
    shared = (sizes, size, tape, matrices, memory, links, ends)
    turn = forward_launch(*shared, ends_of_state=(*given, *final), partial=partial, codes=codes)
    search = search_launch(sizes, size, tape, memory, ends, partial, codes, SEARCH_WARPS)
    turn(0, steps)
    for t in range(steps):
        search(t)
        turn(t + 1, steps)
    return final


def _begin(size: Layout, tape: Tape, given: list[Tensor]) -> None:
    """The state that the first step starts from, on the tape."""
    hidden, cell, read, read_rows, read_weights = given
    tape.rows[0] = -1
    tape.weights[0] = 0
    tape.rows[0, :, : size.R, : size.K] = read_rows
    tape.weights[0, :, : size.R, : size.K] = read_weights
    tape.joint[0, :, size.H :] = read.flatten(1)
    if size.H:
        tape.joint[0, :, : size.H] = hidden
    if size.CELL == "lstm":
        tape.cells[0] = cell


def _end(size: Layout, tape: Tape, ends: Tensor, padded: bool) -> list[Tensor]:
    batch = ends.shape[0]
    final: Any = (ends.long(), torch.arange(batch, device=ends.device)) if padded else tape.unused.shape[0]
    joint = tape.joint[final]
    return [
        joint[:, : size.H].clone(),
        tape.cells[final].clone() if size.CELL == "lstm" else joint,
        joint[:, size.H :].clone().view(batch, size.R, size.W),
        tape.rows[final][:, : size.R, : size.K].long(),
        tape.weights[final][:, : size.R, : size.K].clone(),
    ]


def backward(
    sizes: Any, size: Layout, tape: Tape, matrices: Packed | None, handed: tuple[Tensor, ...], ends: Tensor
) -> None:
    """All steps, newest first; `handed` as in `backward_launch`."""
    steps = tape.unused.shape[0]
    d_joint, d_hidden, d_cell, _, _, carry, carry_cell = handed[:7]
    units = size.H
    carry.zero_()
    carry_cell.zero_()
    run_step = backward_launch(sizes, size, tape, None, handed, ends, WARPS)
    if matrices is not None:
        matrices = Packed(*(matrix.to(torch.float32) for matrix in matrices))
        asking, recurrent = matrices.asking[:, :units], matrices.recurrent[:, : size.J]
        dh = torch.empty_like(d_hidden)
        direct = torch.zeros_like(d_hidden)
        run_cells = cells_launch(size, tape, (d_joint, d_hidden, d_cell, dh, direct, carry, carry_cell), ends)
        sums, asked = tape.gates.unbind(0), tape.interface.unbind(0)
    for t in reversed(range(steps)):
        run_step(t, t + 1)
        if matrices is not None:
            torch.mm(asked[t], asking, out=dh)
            run_cells(t)
            torch.mm(sums[t], recurrent, out=carry)
    if matrices is not None:
        carry[:, :units] += direct
