"""Steps launched one by one: for many batch elements, and for memories that one program would search too long.

A program that runs a whole sequence streams all weights for one element and searches alone. Here controllers are
multiplied for many elements at once, or a search is split over many programs. The price is two launches per step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam import indexes
from sparsam.engines.cuda.launch import (
    backward_launch,
    controllers_launch,
    encoded,
    forward_launch,
    gates_backward_launch,
    new_scratch,
    no_tensor,
    search_launch,
)
from sparsam.engines.cuda.layout import Layout, power_of_two
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.cuda.tape import Tape
from sparsam.engines.cuda.weights import Packed, PackedBackward

MANY_ELEMENTS = 264  # two per multiprocessor of an H200
LONG_SEARCH = 4096  # rows there
PROGRAMS, MANY_PROGRAMS = 264, 528  # of a split search, over fewer and over more rows than MANY_ROWS
MANY_ROWS = 131_072
LEAST_PART, MOST_PARTS = 512, 128  # rows of a part of a search; parts
WARPS, SEARCH = 2, 64  # of a program of one step of one element; rows that it looks at together
WARPS_LINKED = 8
CODED_FROM = 6_000  # rows above which index="auto" looks at codes first


def pays(size: Layout, batch: int, steps: int, memory: CudaMemory) -> bool:
    """Whether steps launched one by one are the faster way."""
    return batch > MANY_ELEMENTS or min(memory.words.shape[1] + steps * size.R, memory.rows) > LONG_SEARCH


def pays_backward(batch: int) -> bool:
    """The same for the backward pass, which searches for nothing."""
    return batch > MANY_ELEMENTS


def parts_of_search(batch: int, rows: int) -> int:
    """Programs that search for one element, a power of two; 0 when one is enough."""
    programs = PROGRAMS if rows <= MANY_ROWS else MANY_PROGRAMS
    parts = min(programs // batch, rows // LEAST_PART, MOST_PARTS)
    return 0 if parts < 2 else power_of_two(parts + 1) // 2


def searches_codes(sizes: Any, rows: int) -> bool:
    """Whether a split search over `rows` rows looks at codes first."""
    index = sizes.index
    if indexes.is_exact(index) or sizes.similarity != "cosine":
        return False
    if isinstance(index, indexes.Auto):
        return bool(rows > (index.exact_until or CODED_FROM))
    return bool(rows > index.checks)


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
    shared: bool = False,
    parts: int | None = None,
) -> list[Tensor]:
    """All steps; returns the state's hidden, cell, read, read_rows and read_weights after the last.

    `shared`: all elements begin with the same words.
    """
    steps, batch = tape.steps, tape.batch
    rows = memory.words.shape[1]
    parts = parts_of_search(batch, rows) if parts is None else parts
    every = (sizes, size, tape, matrices, memory, links, ends)
    if parts:  # two launches a step: all that one program does for an element, and the search, which many share
        codes = encoded(size, memory.words, shared) if searches_codes(sizes, rows) else None
        partial = torch.empty(batch, parts, size.RP, size.KP, dtype=torch.int64, device=tape.joint.device)
        final = [torch.empty_like(value) for value in given]
        turn = forward_launch(*every, ends_of_state=(*given, *final), partial=partial, codes=codes)
        search = search_launch(sizes, size, tape, memory, ends, partial, codes)
        turn(0, steps)
        for t in range(steps):
            search(t)
            turn(t + 1, steps)
        return final
    _begin(size, tape, given)
    warps = WARPS_LINKED if size.KL else WARPS
    scratch = new_scratch(size, batch, no_tensor(tape.joint))
    run_step = forward_launch(*every, scratch=scratch, warps=warps, outside=True, search=SEARCH)
    if matrices is None:
        for t in range(steps):
            run_step(t, t + 1)
    else:
        run_controllers = controllers_launch(size, tape, matrices, ends)
        for t in range(steps):
            run_controllers(t)
            run_step(t, t + 1)
    return [new.to(old.dtype) for new, old in zip(_end(size, tape, ends, padded), given)]


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
    if size.CONTROLLER == "lstm":
        tape.cells[0] = cell


def _end(size: Layout, tape: Tape, ends: Tensor, padded: bool) -> list[Tensor]:
    at, hidden, cell, read = tape.final(ends, padded)
    rows, weights = tape.rows[at][:, : size.R, : size.K].long(), tape.weights[at][:, : size.R, : size.K].clone()
    return [hidden, hidden if cell is None else cell, read, rows, weights]


def backward(
    sizes: Any,
    size: Layout,
    gradients: Tape,
    matrices: PackedBackward | None,
    handed: tuple[Tensor, ...],
    links: tuple[Tensor, ...],
    ends: Tensor,
    limits: Tensor | None = None,
) -> None:
    """All steps, newest first; the tape as copied for its gradients, the rest as in `backward_launch`."""
    d_joint, d_hidden, d_cell, d_read, d_weights, carry, carry_cell, carry_weights, d_words = handed
    carry.zero_()
    carry_cell.zero_()
    if matrices is None:
        run_step = backward_launch(sizes, size, gradients, None, handed, links, ends, WARPS)
        for t in reversed(range(gradients.steps)):
            run_step(t, t + 1)
        return
    vectors, direct = torch.empty_like(d_hidden), torch.zeros_like(d_hidden)
    own = (d_joint, d_hidden, d_cell, d_read, d_weights, carry, vectors, carry_weights, d_words)
    run_step = backward_launch(sizes, size, gradients, matrices, own, links, ends, WARPS, outside=True)
    given = (d_joint, d_hidden, d_cell, vectors, direct, carry, carry_cell)
    run_gates = gates_backward_launch(size, gradients, given, ends)
    recurrent, sums = matrices.recurrent.to(torch.float32)[:, : size.J], gradients.gates.unbind(0)
    for t in reversed(range(gradients.steps)):
        run_step(t, t + 1)
        run_gates(t)
        torch.mm(sums[t], recurrent, out=carry)
        if limits is not None:
            carry[:, : size.H] += direct
            direct.zero_()
            carry.clamp_(-limits[t][:, None], limits[t][:, None])
    carry[:, : size.H] += direct
