"""The functions of the GPU engine's operators (`sparsam.engines.operators`).

A memory here is tensors, so they go in and out as they are, and so does the tape. What the host knows of a memory
(`touched`, `entries`) decides how much room a call makes, so these are arguments too; in an exported program they are
constants.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import FLOATS, WEIGHTS, Outputs
from sparsam.engines.cuda import program
from sparsam.engines.cuda.layout import layout_of
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory, capacity_for
from sparsam.engines.cuda.steps import pays_backward
from sparsam.engines.cuda.tape import Tape, numbers_of
from sparsam.engines.cuda.weights import Weights
from sparsam.engines.engine import Controller, Ran, settings_of, traced_description
from sparsam.engines.operators import none_or
from sparsam.memories.description import SparseSizes, from_text

PARAMETERS = 1 + len(WEIGHTS)  # x and the weights
STEPS = 6  # outputs that are differentiated: joint, hidden, cell, read, read_weights and words
LINKS = 6  # columns and weights of N, P and p in turn
LISTED = 12  # outputs before those


def weights_of(parameters: Any) -> Weights | None:
    return None if parameters[0] is None else Weights(*parameters[:6])


def memory_of(sizes: SparseSizes, words: Tensor, rest: Any, touched: int, entries: int) -> CudaMemory:
    *ring, usage = rest
    known: Any = (sizes.rows, touched, entries, None, usage)
    return CudaMemory(words, *ring, *known)


def linked_lists(tensors: Any, rows: int) -> SparseLinks:
    every: Any = (*tensors, rows)
    return SparseLinks(*every)


def cuda_sequence(*arguments: Any) -> tuple[Tensor, ...]:
    """x (T, B, I) through controller and memory. `joint` is [h, r] of the steps, from before the first one on."""
    x, *parameters = arguments[:PARAMETERS]
    hidden, cell, read, read_weights, words, read_rows, *rest, links, ends = arguments[PARAMETERS:-6]
    text, controller, _, _, touched, entries = arguments[-6:]
    sizes = from_text(text)
    memory = memory_of(sizes, words, rest, touched, entries)
    listed = linked_lists(links, sizes.rows) if links else None
    before = program.Before(hidden, cell, read, read_rows, read_weights, memory, listed)
    how: Any = {"blank_tape": True, "apart": True}  # outputs of an operator may not share memory
    _, after, run = program.forward(sizes, controller, x, weights_of(parameters), before, ends, **how)
    made = after.memory
    return (
        run.tape.joint,
        none_or(after.hidden, x),
        none_or(after.cell, x),
        after.read,
        after.read_weights,
        made.words,
        after.read_rows,
        *made.tensors()[1:5],
        none_or(made.usage, x),
        *([x.new_empty(0) for _ in range(LINKS)] if after.links is None else after.links.tensors()),
        run.tape.arena.view(torch.int32),  # rows of -1 are not a number as floats, and differ from themselves
    )


def cuda_sequence_fake(*arguments: Any) -> tuple[Tensor, ...]:
    x = arguments[0]
    hidden, cell, read, read_weights, words, read_rows, *rest, links, _ = arguments[PARAMETERS:-6]
    text, controller, hidden_size, _, touched, entries = arguments[-6:]
    sizes = from_text(text)
    steps, batch = x.shape[:2]
    size = layout_of(sizes, controller, hidden_size)
    capacity = capacity_for(memory_of(sizes, words, rest, touched, entries), sizes, steps)
    counts = rest[1]
    listed = [value.new_empty(batch, capacity.rows, sizes.k_links) for value in links[:4]]
    listed += [value.new_empty(batch, sizes.k_links) for value in links[4:]]
    return (
        words.new_empty(steps + 1, batch, size.J),
        x.new_empty(0) if hidden is None else x.new_empty(hidden.shape),
        x.new_empty(0) if cell is None else x.new_empty(cell.shape),
        read.new_empty(read.shape),
        read_weights.new_empty(read_weights.shape),
        words.new_empty(batch, capacity.rows, sizes.width),
        read_rows.new_empty(read_rows.shape),
        counts.new_empty(batch, capacity.rows),
        counts.new_empty(counts.shape),
        counts.new_empty(batch, capacity.places),
        counts.new_empty(batch, capacity.places),
        x.new_empty(0) if rest[4] is None else words.new_empty(batch, capacity.rows),
        *(listed or [x.new_empty(0) for _ in range(LINKS)]),
        counts.new_empty(numbers_of(size, steps, batch)),
    )


def cuda_sequence_backward(*arguments: Any) -> list[Tensor]:
    """The gradients of the floating-point inputs, in their order, and of the weights of links that have gradients."""
    x, *parameters = arguments[:PARAMETERS]
    ends, joint, arena, text, controller, hidden_size, clip, *gradients = arguments[PARAMETERS:]
    rows_before, rows_after, d_joint, *given, columns, d_predecessors, d_successors, d_precedence, needs_words = (
        gradients
    )
    sizes = from_text(text)
    size = layout_of(sizes, controller, hidden_size)
    steps, batch = x.shape[:2]
    tape = Tape(size, steps, batch, x, arena.view(torch.float32))
    tape.joint = joint
    lengths = program.ends_of(ends, steps, batch, x.device)
    there = (rows_before, rows_after)
    how = (pays_backward(batch), ends is not None, tuple(columns))
    run = program.Run(sizes, size, x, weights_of(parameters), tape, lengths, there, *how)
    d_links = (d_predecessors, d_successors, d_precedence)
    d_steps: Any = (None if d_joint is None else d_joint[1:], *given, d_links, needs_words, clip)
    found = program.backward(run, *d_steps)
    of_weights: Any = (None,) * 6 if found.weights is None else found.weights
    # some are parts of one tensor
    small = (*of_weights, None, None, found.hidden, found.cell, found.read, found.read_weights)
    values = [x.new_empty(0) if value is None else torch.clone(value).contiguous() for value in small]
    words = found.words.contiguous() if needs_words else x.new_empty(0)
    return [found.x, *values, words, *(value.contiguous() for value in found.links)]


def cuda_sequence_backward_fake(*arguments: Any) -> list[Tensor]:
    x, *parameters = arguments[:PARAMETERS]
    _, joint, _, text, controller, units, _, rows_before, *_ = arguments[PARAMETERS:]
    columns, needs_words = arguments[-5], arguments[-1]
    sizes, batch = from_text(text), x.shape[1]
    found = [x.new_empty(0) if value is None else x.new_empty(value.shape) for value in (x, *parameters)]
    state = [joint.new_empty(batch, units) if units else x.new_empty(0)]
    state += [joint.new_empty(batch, units) if controller == "lstm" else x.new_empty(0)]
    state += [joint.new_empty(batch, sizes.heads, sizes.width), joint.new_empty(batch, sizes.heads, sizes.k)]
    words = joint.new_empty(batch, rows_before, sizes.width) if needs_words else x.new_empty(0)
    links = [joint.new_empty(batch, rows_before, sizes.k_links)] * 2 + [joint.new_empty(batch, sizes.k_links)]
    return [*found, *state, words, *([torch.empty_like(value) for value in links] if columns else [])]


def cuda_sequence_keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.settings = inputs[-6:-2]
    ctx.rows = (inputs[FLOATS].shape[1], output[STEPS - 1].shape[1])
    ctx.links = len(inputs[-8])
    ctx.there = [value is not None for value in inputs[: FLOATS + 1]]
    columns = output[LISTED : LISTED + LINKS : 2] if from_text(inputs[-6]).link_gradients else ()
    ctx.save_for_backward(*inputs[:PARAMETERS], inputs[-7], output[0], output[-1], *columns)
    ctx.set_materialize_grads(False)


def cuda_sequence_differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
    tensors, (ends, joint, tape, *columns) = ctx.saved_tensors[:PARAMETERS], ctx.saved_tensors[PARAMETERS:]
    needs, there = ctx.needs_input_grad, ctx.there
    given = [None if g is None else g.contiguous() for g in gradients[:STEPS]]
    given[1] = given[1] if there[PARAMETERS] else None
    given[2] = given[2] if there[PARAMETERS + 1] else None
    of_links = gradients[LISTED + 1 : LISTED + LINKS : 2] if columns else (None,) * 3
    found = torch.ops.sparsam.cuda_sequence_backward(
        *(*tensors, ends, joint, tape, *ctx.settings, *ctx.rows, *given), *(columns, *of_links, needs[FLOATS])
    )
    wanted = [g if need and here else None for g, need, here in zip(found, needs, there)]
    rest: list[Any] = [None] * (len(needs) - FLOATS - 1)
    rest[6] = [None] * ctx.links
    if columns:
        rest[6][1::2] = found[FLOATS + 1 :]
    return (*wanted, *rest)


def traced_run(
    memory: Any, controller: Controller | None, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> Ran:
    sizes: SparseSizes = memory.sizes
    text = traced_description(memory, record)
    held: CudaMemory = state.memory
    links = list(state.links.tensors()) if sizes.k_links else []
    given = boundary.inputs(controller, x, state, held.words)
    found = torch.ops.sparsam.cuda_sequence(
        *given[: FLOATS + 1],
        *(state.read_rows, *held.tensors()[1:5], held.usage, links, None if ends is None else ends.to(x.device), text),
        *settings_of(controller),
        *(held.touched, held.entries),
    )
    joint, hidden, inner, read, weights, words, rows, *ring, usage = found[:LISTED]
    capacity = capacity_for(held, sizes, x.shape[0])
    known: Any = (held.rows, capacity.touched, capacity.entries, held.start, None if held.usage is None else usage)
    after, linked = CudaMemory(words, *ring, *known), None
    if sizes.k_links:
        linked = linked_lists(found[LISTED : LISTED + LINKS], sizes.rows)
    carried = (None if given.hidden is None else hidden, None if given.cell is None else inner)
    out = Outputs(joint, *carried, read, weights, None)
    return Ran(joint[1:].to(x.dtype), boundary.fields_after(out, rows, after, linked), [])
