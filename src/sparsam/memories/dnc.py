"""The memory of the Differentiable Neural Computer (Graves 2016; section D): allocation, temporal links, read modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.reference.allocation import allocation_weights, dnc_usage, retention
from sparsam.engines.reference.dense import dense_read, erase_and_add
from sparsam.engines.reference.temporal import mix_modes, precedence_weights
from sparsam.memories.addressing import Addressing
from sparsam.memories.dense import DenseMemoryModel
from sparsam.memories.freeing import Freeing
from sparsam.memories.fused.link_step import link_step
from sparsam.memories.interface import Field, Interface
from sparsam.memories.memory import Step
from sparsam.state import State
from sparsam.trace import READ, WRITE, DenseAccess


@dataclass(frozen=True, eq=False, repr=False)
class DNCState(State):
    """State of the DNC."""

    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N)
    write_weights: Tensor  # w^W (B, N)
    usage: Tensor  # u (B, N)
    precedence: Tensor  # p (B, N)
    link: Tensor  # L (B, N, N)
    memory: Tensor  # M (B, N, W)
    start: DNCState | None = None


class DNCMemory(DenseMemoryModel):
    """R read heads and one write head over N words; writes first, then reads.

    A blank memory is all zero; usage, links, precedence and weights start at zero. Only the order by usage is a
    constant for the gradient.
    """

    name = "dnc"
    state_class = DNCState

    def __init__(
        self,
        rows: int,
        width: int,
        heads: int,
        addressing: Addressing | None = None,
        freeing: Freeing | None = None,
        compile_step: bool = False,
    ) -> None:
        super().__init__(rows, width, heads, compile_step)
        self.addressing = Addressing() if addressing is None else addressing
        self.freeing = Freeing() if freeing is None else freeing

    @property
    def interface(self) -> Interface:
        """The order of Graves 2016; what parts add comes last, masks of the read keys and then of the write key."""
        heads, width = self.heads, self.width
        fields = (
            Field("read_keys", (heads, width)),
            Field("read_strengths", (heads,), "one_plus"),
            Field("write_key", (1, width)),
            Field("write_strength", (1,), "one_plus"),
            Field("erase", (1, width), "sigmoid"),
            Field("write_word", (1, width)),
            Field("free_gates", (heads,), "sigmoid"),
            Field("allocation_gate", (1,), "sigmoid"),
            Field("write_gate", (1,), "sigmoid"),
            Field("read_modes", (heads, 3), "softmax"),  # backward, content, forward
        )
        return Interface(fields + self.addressing.fields(heads + 1, width))

    def options(self) -> dict[str, Any]:
        return {**self.addressing.options, **self.freeing.options}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "read": (self.heads, self.width),
            "read_weights": (self.heads, self.rows),
            "write_weights": (self.rows,),
            "usage": (self.rows,),
            "precedence": (self.rows,),
            "link": (self.rows, self.rows),
            "memory": (self.rows, self.width),
        }

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        return {
            **self.zeros(batch, like, besides=("memory", "link")),
            "link": like.new_zeros(1, 1, 1).expand(batch, self.rows, self.rows),  # no bytes before the first write
            "memory": self.starting_words(batch, initial, like),
        }

    def plain_step(self, vector: Tensor, state: Any) -> Step:
        """Usage and allocation, the write, the links, then the reads (Graves 2016, Methods)."""
        request = self.interface.split(vector)
        content_weights, readers, writer = self.addressing.dense_weights, slice(self.heads), slice(self.heads, None)
        retained = retention(request["free_gates"], state.read_weights)
        usage = dnc_usage(state.usage, state.write_weights, retained)
        content = content_weights(request["write_key"], request["write_strength"], state.memory, request, writer)
        allocated = torch.lerp(content[:, 0], allocation_weights(usage), request["allocation_gate"])
        w_write = request["write_gate"] * allocated
        words = self.freeing.words(state.memory, retained)
        words = erase_and_add(words, w_write[:, None], request["erase"], request["write_word"])
        link, forward, backward = link_step(state.link, state.precedence, w_write, state.read_weights)
        precedence = precedence_weights(state.precedence, w_write)
        content = content_weights(request["read_keys"], request["read_strengths"], words, request, readers)
        w_read = mix_modes(request["read_modes"], backward, content, forward)
        read = dense_read(w_read, words)
        fields = {
            "read": read,
            "read_weights": w_read,
            "write_weights": w_write,
            "usage": usage,
            "precedence": precedence,
            "link": link,
            "memory": words,
        }
        return read, fields, [DenseAccess(WRITE, w_write[:, None]), DenseAccess(READ, w_read)]
