"""Sizes of the dense models' kernels, and which models fit them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparsam.engines.cuda.layout import Controlled, power_of_two
from sparsam.memories.interface import Interface

MOST_PRODUCTS = 32_768  # heads times rows times width, powers of two each: what a program holds at once
MOST_LINKED = 128  # rows that the DNC has links between
FEW_PRODUCTS = 16_384  # with which four warps have registers enough
BLOCK = 16_384  # heads times rows times columns of the links that are worked on together


@dataclass(frozen=True)
class DenseLayout(Controlled):
    """A dense memory with a controller: N words of width W, R heads."""

    MODEL: str  # "dam", "ntm" or "dnc"
    CONTROLLER: str  # "lstm" or "gru"
    H: int
    R: int
    W: int
    N: int
    SIMILARITY: str
    interface: Interface

    NP = cached_property(lambda size: power_of_two(size.N, 16))
    LB = cached_property(lambda size: min(size.NP, max(1, BLOCK // (size.RP * size.NP))))  # rows of links at a time
    WRITERS = cached_property(lambda size: {"dam": 0, "ntm": size.R, "dnc": 1}[size.MODEL])  # rows of write weights
    SCORED = cached_property(lambda size: {"dam": size.R, "ntm": 2 * size.R, "dnc": size.R + 1}[size.MODEL])  # heads
    ROOM = cached_property(lambda size: {"dam": 0, "ntm": size.R, "dnc": 2 * size.R + 1}[size.MODEL])  # rows of scratch

    @cached_property
    def WARPS(self) -> int:
        """Of a program. With four, two elements share a multiprocessor: slower alone, faster with many elements or with
        several runs on one GPU. The DNC's backward step does not fit the registers of four.
        """
        return 4 if self.MODEL != "dnc" and self.RP * self.NP * self.WP <= FEW_PRODUCTS else 8


def dense_layout(memory: Any, controller: str, hidden: int) -> DenseLayout:
    similarity = getattr(memory, "similarity", "cosine")
    sizes = (memory.heads, memory.width, memory.rows)
    return DenseLayout(memory.name, controller, hidden, *sizes, similarity, memory.interface)


def fits(memory: Any) -> bool:
    if memory.options():
        return False
    rows, width = power_of_two(memory.rows, 16), power_of_two(memory.width, 16)
    if memory.name == "dnc" and rows > MOST_LINKED:
        return False
    return power_of_two(memory.heads, 2) * rows * width <= MOST_PRODUCTS
