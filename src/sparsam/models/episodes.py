"""Sequences in which elements start anew (`resets`): several episodes one after the other in a column of x.

An engine with a loop of its own runs every episode as a batch element of its own, however many there are: all in one
call, or in a few where one long episode would pad many short ones. A loop in Python, which gains nothing by that, runs
the sequence in pieces that begin at the resets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines.plan import Plan
from sparsam.state import cat
from sparsam.trace import Access
from sparsam.transfer import blank_past, sent

PADDING = 1.5  # a call has at most this many times the steps of its episodes, and
SPARE = 512  # this many


class Episodes(NamedTuple):
    """Element, first step and length of each episode; whether it starts anew; whether it is its element's last."""

    element: Tensor
    begin: Tensor
    length: Tensor
    anew: Tensor
    last: Tensor


def run(
    model: Any, plan: Plan, x: Tensor, state: Any, lengths: Tensor | None, flags: Tensor, record: bool
) -> tuple[Tensor, Any, Sequence[Access]]:
    """x (T, B, I) from `state`, where elements start anew before the steps at which `flags` (T, B) are true."""
    steps, batch, _ = x.shape
    if lengths is not None:
        flags = flags & (torch.arange(steps, device="cpu")[:, None] < lengths)
    compiling = torch.compiler.is_compiling()
    if compiling or record or not (plan.fused or model.memory is None):
        return _in_pieces(model, plan, x, state, lengths, flags, record)
    if not bool(flags.any()):
        return model.run(plan, x, state, lengths, record)
    found = episodes(flags, torch.full((batch,), steps, device="cpu") if lengths is None else lengths)
    y, places, states, elements = [], [], [], []
    for at in groups(found.length):
        these = Episodes(*(field[at] for field in found))
        outputs, where, after = _together(model, plan, x, state, these)
        y.append(outputs)
        places.append(where)
        final = these.last.nonzero().squeeze(-1)
        if len(final):
            states.append(after[final])
            elements.append(these.element[final])
    known = torch.cat(y)
    answers = known.new_zeros(steps * batch, known.shape[-1]).index_copy(0, sent(torch.cat(places), x.device), known)
    return answers.view(steps, batch, -1), cat(states)[torch.cat(elements).argsort()], []


def episodes(flags: Tensor, lengths: Tensor) -> Episodes:
    """What `flags` (T, B) and `lengths` (B,) make of a batch, by element and time."""
    begins = flags.clone()
    begins[0] = True
    element, begin = begins.T.nonzero(as_tuple=True)
    following = torch.cat([begin[1:], begin.new_zeros(1)])  # 0 where the next one is another element's
    last = following <= begin
    return Episodes(element, begin, torch.where(last, lengths[element], following) - begin, flags[begin, element], last)


def groups(lengths: Tensor) -> list[Tensor]:
    """Which episodes share a call, longest first."""
    found, left = [], lengths.argsort(descending=True, stable=True)
    while len(left):
        these = lengths[left]
        padded = torch.arange(1, len(left) + 1, device="cpu") * these[0]
        fits = padded <= PADDING * these.cumsum(0) + SPARE
        count = len(left) if bool(fits.all()) else int(fits.long().argmin())
        found.append(left[:count])
        left = left[count:]
    return found


def _together(model: Any, plan: Plan, x: Tensor, state: Any, these: Episodes) -> tuple[Tensor, Tensor, Any]:
    """One call: the outputs of all steps of these episodes, their places in (T · B), and the state after each."""
    steps, batch, width = x.shape
    at = torch.arange(int(these.length.max()), device="cpu")[:, None]
    there = at < these.length
    places = (these.begin + at).clamp(max=steps - 1) * batch + these.element
    inputs = x.flatten(0, 1).index_select(0, sent(places.flatten(), x.device)).view(*places.shape, width)
    ends = None if bool(there.all()) else these.length
    begun = state[these.element]
    if bool(these.anew.any()):
        begun = begun.reset(sent(these.anew, x.device))
    y, after, _ = model.run(plan, blank_past(inputs, ends), begun, ends, False)
    kept = sent(there.flatten().nonzero().squeeze(-1), x.device)
    return y.flatten(0, 1).index_select(0, kept), places[there], after


def _in_pieces(
    model: Any, plan: Plan, x: Tensor, state: Any, lengths: Tensor | None, flags: Tensor, record: bool
) -> tuple[Tensor, Any, Sequence[Access]]:
    """The sequence in pieces that begin where an element starts anew."""
    steps = x.shape[0]
    every = torch.compiler.is_compiling()  # a graph cannot depend on where the flags are
    begins = [t for t in range(steps) if t == 0 or every or bool(flags[t].any())]
    outputs: list[Tensor] = []
    seen: list[Access] = []
    for begin, end in zip(begins, [*begins[1:], steps]):
        if every or bool(flags[begin].any()):
            state = state.reset(sent(flags[begin], x.device))
        left = None if lengths is None else (lengths - begin).clamp(0, end - begin)
        y, state, accesses = model.run(plan, x[begin:end], state, left, record)
        outputs.append(y)
        seen += [access.later(begin) for access in accesses]
    return torch.cat(outputs), state, seen
