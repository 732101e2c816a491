"""The memory of the Differentiable Neural Computer (Graves 2016; section D): allocation, temporal links, read modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsam import checks
from sparsam.engines.reference.allocation import allocation_weights, dnc_usage, retention
from sparsam.engines.reference.deallocation import deallocated
from sparsam.engines.reference.dense import dense_read, erase_and_add
from sparsam.engines.reference.masking import masked_content_weights
from sparsam.engines.reference.temporal import mix_modes, precedence_weights
from sparsam.memories.dense import DenseMemoryModel
from sparsam.memories.fused.cosine import dense_content_weights
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

    def __init__(self, rows: int, width: int, heads: int, masked: bool = False, deallocate: bool = False) -> None:
        super().__init__(rows, width, heads)
        self.masked = checks.boolean("masked", masked)
        self.deallocate = checks.boolean("deallocate", deallocate)

    @property
    def interface(self) -> Interface:
        """The order of Graves 2016; masks, of the read keys and then of the write key, come last."""
        heads, width = self.heads, self.width
        fields = [
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
        ]
        if self.masked:
            fields.append(Field("masks", (heads + 1, width), "sigmoid"))
        return Interface(tuple(fields))

    def options(self) -> dict[str, Any]:
        return {n: True for n in ("masked", "deallocate") if getattr(self, n)}

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

    def step(self, vector: Tensor, state: Any) -> Step:
        """Usage and allocation, the write, the links, then the reads (Graves 2016, Methods)."""
        request = self.interface.split(vector)
        masks = request.get("masks")
        read_masks, write_mask = (None, None) if masks is None else masks.split([self.heads, 1], dim=1)
        retained = retention(request["free_gates"], state.read_weights)
        usage = dnc_usage(state.usage, state.write_weights, retained)
        content = content_weights(request["write_key"], request["write_strength"], write_mask, state.memory)[:, 0]
        allocated = torch.lerp(content, allocation_weights(usage), request["allocation_gate"])
        w_write = request["write_gate"] * allocated
        words = deallocated(state.memory, retained) if self.deallocate else state.memory
        words = erase_and_add(words, w_write[:, None], request["erase"], request["write_word"])
        link, forward, backward = link_step(state.link, state.precedence, w_write, state.read_weights)
        precedence = precedence_weights(state.precedence, w_write)
        content = content_weights(request["read_keys"], request["read_strengths"], read_masks, words)
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


def content_weights(keys: Tensor, strengths: Tensor, masks: Tensor | None, words: Tensor) -> Tensor:
    """C(M, k, beta) of Graves 2016 by cosine, (B, R, N), masked where there are masks."""
    if masks is None:
        return dense_content_weights("cosine", keys, strengths, words)
    return masked_content_weights(keys, strengths, masks, words)
