"""How the weights of a model with a memory begin (`start=`).

Linear maps as torch draws them make a memory model that writes half of every word, adds half of it to what it read
before, and looks words up by queries that have nothing to do with what was stored; its controller meanwhile holds the
first pairs by itself. Such a model can take very long to find out what the memory is for, or never does. Here a few
biases are moved and a few weights scaled, so that the first minibatches write words, keep them and find them again.

    sparsam.SAM(8, 8)                                        # start="open"
    sparsam.SAM(8, 8, start="plain")                         # as nn.LSTM and nn.Linear begin
    sparsam.SAM(8, 8, start=sparsam.Start(write=2, reuse=-5))  # numbers of your own; the others move nothing

Which rows of the interface a number moves is declared by the memory, as the role of a field
(`sparsam.memories.interface`). A controller that the user made is left as it is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sparsam import checks

if TYPE_CHECKING:
    from sparsam.memories.interface import Interface

MOST = 1e4  # a bias beyond this says nothing that a smaller one does not


@dataclass(frozen=True)
class Start:
    """Changes to torch's usual initial weights. `Start()` changes nothing.

    Args:
        forget: added to the bias of the gate that keeps the controller's own state, in every layer: the forget gate of
            an LSTM, the update gate of a GRU. Below 0 the controller starts by forgetting and leaves it to the memory
            to remember. A feed-forward controller has no such gate.
        write: added to the bias of the write gates. Above 0 words are written whole.
        reuse: added to the bias of the gates that choose between the rows just read and unused rows. Below 0 a word
            gets a row of its own.
        sharpness: added to the bias of the read strength. Above 0 the most similar word gets most of the weight.
        words: factor of the weights of queries and written words. Above 1 they differ more from step to step.
        tied: written words start with the weights of the queries, so a read finds what a similar step has written. A
            DNC's one word starts with those of the first read head.
        lookup: added to the bias of the gates and modes that read by content. Above 0 a read looks words up rather than
            going on from where it was (NTM) or following links (DNC, SDNC).
        walk: added to the bias of the shift of a write by one row, and taken from that of the gate that writes to words
            looked up. Above 0 each write of an NTM goes to the row after the last one.
        feedforward: above 0, an LSTM starts as a feed-forward layer whose gates are held by this bias.
    """

    forget: float = 0.0
    write: float = 0.0
    reuse: float = 0.0
    sharpness: float = 0.0
    words: float = 1.0
    tied: bool = False
    feedforward: float = 0.0
    lookup: float = 0.0
    walk: float = 0.0

    def __post_init__(self) -> None:
        for name in ("forget", "write", "reuse", "sharpness", "lookup", "walk"):
            object.__setattr__(self, name, checks.number_in(f"start.{name}", getattr(self, name), -MOST, MOST))
        for name in ("words", "feedforward"):
            object.__setattr__(self, name, checks.number_in(f"start.{name}", getattr(self, name), 0.0, MOST))
        checks.boolean("start.tied", self.tied)

    @torch.no_grad()
    def move_interface(self, layer: nn.Linear, interface: Interface) -> None:
        """Change a linear layer whose rows are `interface`."""
        shifts = {"sharpness": self.sharpness, "write": self.write, "reuse": self.reuse, "allocate": -self.reuse}
        shifts |= {"lookup": self.lookup, "next": self.walk, "place": -self.walk}
        rows = interface.roles()
        for role, shift in shifts.items():
            for part in rows.get(role, []):
                layer.bias[part] += shift
        for part in [*rows.get("query", []), *rows.get("word", [])]:
            layer.weight[part] *= self.words
        if self.tied:
            self._tie(layer, rows.get("query", []), rows.get("word", []))

    def _tie(self, layer: nn.Linear, queries: list[slice], words: list[slice]) -> None:
        """In every interface the queries of the read heads come first, head by head as the words do."""
        if len(words) != 1 or not queries or words[0].stop - words[0].start > queries[0].stop - queries[0].start:
            raise ValueError("start.tied: expected a memory with a query for each written word")
        first = queries[0].start
        for parameter in (layer.weight, layer.bias):
            parameter[words[0]] = parameter[first : first + words[0].stop - words[0].start]


STARTS = {"open": Start(forget=-2.0, write=2.0, reuse=-5.0, sharpness=5.0, words=2.0), "plain": Start()}


def checked(start: Any) -> str | Start:
    if isinstance(start, Start):
        return start
    if not isinstance(start, str):
        raise TypeError(f"start: expected {', '.join(map(repr, STARTS))} or a Start, got {type(start).__name__}")
    return checks.one_of("start", start, STARTS)


def numbers(start: str | Start) -> Start:
    return STARTS[start] if isinstance(start, str) else start


def as_values(start: str | Start) -> str | dict[str, Any]:
    """The argument as a file holds it: a name, or the numbers by name; `from_values` is the inverse."""
    return start if isinstance(start, str) else dataclasses.asdict(start)


def from_values(values: Any) -> str | Start:
    if not isinstance(values, dict):
        return checked(values)  # a Start too
    known = [entry.name for entry in dataclasses.fields(Start)]
    for key in values:
        checks.one_of("start", key, known)
    return Start(**values)
