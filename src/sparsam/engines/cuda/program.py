"""A sequence on the GPU, forward and backward, as plain functions over tensors: no models, no autograd.

The kernels step through time, one program per batch element; what can be one large product over all steps stays with
torch. With many elements, or with a memory to search that one program would take long over, the steps are launched one
by one instead (`sparsam.engines.cuda.steps`), so that torch multiplies for all elements at once and many programs
search for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines.clipping import backward_limits
from sparsam.engines.cuda import steps as by_steps
from sparsam.engines.cuda.launch import (
    backward_launch,
    blank_words,
    catch_up,
    forward_launch,
    no_tensor,
    on_device_of,
    packed_at_once,
)
from sparsam.engines.cuda.layout import CONTROLLERS, Layout, layout_of
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory, working_copy
from sparsam.engines.cuda.tape import Tape
from sparsam.engines.cuda.weights import (
    Weights,
    aligned_tensor,
    input_sums,
    packed_backward,
    weight_gradients,
)
from sparsam.transfer import sent


class Before(NamedTuple):
    """What a sequence starts from, and what it ends with. hidden and cell are None where the controller has none."""

    hidden: Tensor | None  # (B, H)
    cell: Tensor | None
    read: Tensor  # (B, R, W)
    read_rows: Tensor  # (B, R, K) int64, -1 for none
    read_weights: Tensor
    memory: CudaMemory
    links: SparseLinks | None = None


@dataclass(eq=False)
class Run:
    """A forward pass, as its backward pass needs it. It can be run backward more than once."""

    sizes: Any
    size: Layout
    x: Tensor
    weights: Weights | None
    tape: Tape
    ends: Tensor  # (B,) int32
    memory_rows: tuple[int, int]  # rows there before and after
    stepwise: bool
    padded: bool
    link_columns: tuple[Tensor, ...] = ()  # of the links after the last step, where they have gradients


class Gradients(NamedTuple):
    x: Tensor
    weights: Weights | None
    hidden: Tensor | None
    cell: Tensor | None
    read: Tensor
    read_weights: Tensor
    words: Tensor
    links: tuple[Tensor, ...] = ()  # of the weights of N, P and p


def forward(
    sizes: Any,
    controller: str,
    x: Tensor,
    weights: Weights | None,
    before: Before,
    lengths: Tensor | None = None,
    stepwise: bool | None = None,
    into: Before | None = None,
    blank_tape: bool = False,
    unused: Tensor | None = None,
    apart: bool = False,
) -> tuple[Tensor, Before, Run]:
    """Run x (T, B, I), or with controller "none" the interface before its activation (T, B, F).

    Returns [h, r] (T, B, H + R W) of every step (zero past an element's length), the state after it, and what the
    backward pass needs. `stepwise` chooses how (None: by what is faster). The state after it is made `into` tensors
    that have room for it, or into new ones. A `blank_tape` holds zeros where nothing is written.
    Where `into` holds what was one step before, and the rows `unused` (B, RP) were written anew in that step, only what
    that step changed is carried over. With `apart` no two tensors of the state after it share memory.
    """
    if controller not in CONTROLLERS:
        raise ValueError(f"controller: expected one of {', '.join(CONTROLLERS)}, got {controller!r}")
    with on_device_of(x):
        size = layout_of(sizes, controller, 0 if weights is None else weights.hidden.shape[1])
        steps, batch, _ = x.shape
        x = plain(x)
        tape = Tape(size, steps, batch, x)
        if blank_tape:
            tape.arena.zero_()
        ends = ends_of(lengths, steps, batch, x.device)
        if weights is None:
            matrices = None
            tape.interface.copy_(x)
        else:
            matrices = packed_at_once(weights, size)
            input_sums(x, weights, size, tape.gates)
        if into is None:
            memory = working_copy(before.memory, sizes, steps, apart)
            links = None if before.links is None else before.links.working_copy(memory.words.shape[1], apart)
        else:
            memory, links = into.memory, into.links
            if unused is None:
                copy_stores(before, into)
            else:
                changed = (*before.memory.tensors(), before.read_rows, unused)
                catch_up(size, changed, (*memory.tensors(), into.read_rows))
        chosen = stepwise
        if stepwise is None:
            stepwise = by_steps.pays(size, batch, steps, before.memory)
        given = [no_tensor(x) if value is None else aligned_tensor(plain(value)) for value in before[:5]]
        if stepwise:
            shared = into is None and before.memory.words.stride(0) == 0
            final = by_steps.forward(
                sizes, size, tape, matrices, given, memory, links, ends, lengths is not None, shared
            )
            if into is not None:
                for place, value in zip(places_of(into, final), final):
                    place.copy_(value)
        else:
            final = [torch.empty_like(value) for value in given] if into is None else places_of(into, given)
            run_steps = forward_launch(sizes, size, tape, matrices, memory, links, ends, ends_of_state=(*given, *final))
            run_steps(0, steps)
        carried = (None if old is None else new for old, new in zip(before[:5], final))
        every: Any = (*carried, memory, links)
        after = Before(*every)
        rows = (before.memory.words.shape[1], memory.words.shape[1])
        by_one = by_steps.pays_backward(batch) if chosen is None else chosen
        columns = links.columns() if size.LG and links is not None else ()
        run = Run(sizes, size, x, weights, tape, ends, rows, by_one, lengths is not None, columns)
        return tape.joint[1:].to(x.dtype), after, run


def copy_stores(before: Before, into: Before) -> None:
    pairs = list(zip(into.memory.tensors(), before.memory.tensors()))
    if into.links is not None and before.links is not None:
        pairs += zip(into.links.tensors(), before.links.tensors())
    for new, old in pairs:
        new.copy_(old)


def places_of(into: Before, given: list[Tensor]) -> list[Tensor]:
    """Where the state's five tensors go; what there is none of goes nowhere."""
    return [nothing if place is None else place for place, nothing in zip(into[:5], given)]


def plain(value: Tensor) -> Tensor:
    """`value` without its history; itself where it has none, since every call of torch costs microseconds."""
    return value.detach() if value.requires_grad else value


@lru_cache(maxsize=64)
def _filled(shape: tuple[int, ...], value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A constant that calls share, for reading only."""
    return torch.full(shape, value, dtype=dtype, device=device)


def ends_of(lengths: Tensor | None, steps: int, batch: int, device: torch.device) -> Tensor:
    """(B,) int32: the step that each element ends with."""
    if lengths is None:
        return _filled((batch,), steps, torch.int32, device)
    return sent(lengths.to(torch.int32), device)


def _link_arrays(run: Run, d_links: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    """Columns and gradients of N, P and p for the backward kernel to change; nothing where they have no gradients."""
    found: list[Tensor] = []
    for columns, gradient in zip(run.link_columns, d_links):
        blank = torch.zeros(columns.shape, dtype=torch.float32, device=columns.device)
        found += [columns.clone(), blank if gradient is None else blank.copy_(gradient)]
    return tuple(found)


def backward(
    run: Run,
    d_joint: Tensor | None,
    d_hidden: Tensor | None = None,
    d_cell: Tensor | None = None,
    d_read: Tensor | None = None,
    d_read_weights: Tensor | None = None,
    d_words: Tensor | None = None,
    d_links: tuple[Tensor | None, ...] = (None, None, None),
    words_wanted: bool = True,
    clip: float | None = None,
) -> Gradients:
    """Gradients for those of [h, r] at every step and of the state after the last, None for zero.

    Where the gradient of the words is not `words_wanted`, it is right only in the rows that were touched. `clip` limits
    what flows backward from step to step (`sparsam.engines.clipping`).
    """
    with on_device_of(run.x):
        given = (d_hidden, d_cell, d_read, d_read_weights)
        limits = None
        if clip and run.weights is not None:
            outside = [None if value is None else value.to(torch.float32) for value in (d_joint, d_hidden, d_read)]
            final = [value for value in outside[1:] if value is not None]
            limits = backward_limits(clip, run.x.shape[0], outside[0], final)
        size, tape = run.size, run.tape
        batch = run.x.shape[1]
        numbers: dict[str, Any] = {"dtype": torch.float32, "device": run.x.device}
        shapes = ((batch, size.H), (batch, size.H), (batch, size.R, size.W), (batch, size.R, size.K))
        finals = [
            _filled(shape, 0.0, **numbers) if value is None else aligned_tensor(value.to(torch.float32))
            for value, shape in zip(given, shapes)
        ]
        d_joint = torch.zeros_like(tape.joint[1:]) if d_joint is None else aligned_tensor(d_joint.to(torch.float32))
        before, after = run.memory_rows
        if d_words is not None:
            d_words = d_words.clone(memory_format=torch.contiguous_format)
        else:
            d_words = blank_words(tape, size, after, run.ends, words_wanted)
        carry = torch.empty(batch, size.J, **numbers)
        carry_cell = torch.empty(batch, size.H, **numbers)
        carry_weights = torch.empty(batch, size.RP, size.KP, **numbers)
        gradients = tape.with_gradients()
        handed = (d_joint, *finals, carry, carry_cell, carry_weights, d_words)
        matrices = None if run.weights is None else packed_backward(run.weights, size)
        links = _link_arrays(run, d_links)
        if run.stepwise:
            by_steps.backward(run.sizes, size, gradients, matrices, handed, links, run.ends, limits)
        else:
            launched = backward_launch(run.sizes, size, gradients, matrices, handed, links, run.ends, limits=limits)
            launched(0, run.x.shape[0])
        if run.padded:  # an element of no steps hands back what it was given
            none = (run.ends == 0)[:, None]
            carry = torch.where(none, torch.cat([finals[0], finals[2].flatten(1)], dim=1), carry)
            carry_cell = torch.where(none, finals[1], carry_cell)
            kept = torch.where(none[..., None], finals[3], carry_weights[:, : size.R, : size.K])
        else:
            kept = carry_weights[:, : size.R, : size.K]
        if run.weights is None:
            d_x, d_weights = gradients.interface.to(run.x.dtype), None
        else:
            d_x, d_weights = weight_gradients(
                run.x, tape.joint, gradients.gates, gradients.interface, run.weights, size
            )
        return Gradients(
            d_x,
            d_weights,
            carry[:, : size.H] if size.H else None,
            carry_cell if size.CONTROLLER == "lstm" else None,
            carry[:, size.H :].unflatten(-1, (size.R, size.W)),
            kept,
            d_words[:, :before],
            (links[1][:, :before], links[3][:, :before], links[5]) if links else (),
        )
