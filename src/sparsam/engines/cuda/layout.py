"""Sizes of the GPU kernels: what a description and a controller come to, and the powers of two that hold it.

Tensors in memory are not padded, they have the models' order; only the blocks that a program holds are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from sparsam.memories.interface import Interface, sparse_interface

CELLS = ("lstm", "gru", "none")
FIELDS_AT = {  # what the kernels call the places where fields begin; they take it that gamma follows alpha
    "WORD_AT": "write_word",
    "STRENGTH_AT": "strength",
    "ALPHA_AT": "write_gate",
    "GAMMA_AT": "interpolation",
    "MODES_AT": "read_modes",
    "FREE_AT": "free_gates",
}


def power_of_two(count: int, least: int = 1) -> int:
    """The smallest power of two that is at least `count` and `least`."""
    return 1 << max(count - 1, least - 1, 0).bit_length()


def aligned(count: int) -> int:
    """The smallest multiple of 4 that is at least `count`: such rows of floats can be loaded 16 bytes at a time."""
    return -(-count // 4) * 4


def heads_of(heads: int) -> int:
    return power_of_two(heads, 2)


def reads_of(heads: int, k: int) -> int:
    return power_of_two(k, 16 // min(heads_of(heads), 16))


def accesses_of(heads: int, k: int) -> int:
    """Entries of a write and a read together."""
    return power_of_two(2 * heads_of(heads) * reads_of(heads, k) + heads_of(heads), 16)


class Controlled:
    """The sizes of a controller with heads on words, by letters: H, R, W and the interface of a memory.

    The powers of two have a P (`sparsam.engines.cuda.kernels` uses these names).
    """

    CELL: str  # "lstm", "gru" or "none"
    H: int  # 0 without a controller
    R: int
    W: int

    @cached_property
    def interface(self) -> Interface:
        raise NotImplementedError

    @cached_property
    def J(self) -> int:
        """Width of [h, r]."""
        return self.H + self.R * self.W

    @cached_property
    def F(self) -> int:
        """Width of the interface, as it is declared; likewise where its fields begin."""
        return self.interface.size

    @cached_property
    def JS(self) -> int:
        """Distance of rows of the recurrent matrix (4 H, J)."""
        return aligned(self.J)

    @cached_property
    def HS(self) -> int:
        """Distance of rows of the interface's matrix (F, H)."""
        return aligned(self.H)

    @cached_property
    def FS(self) -> int:
        """Distance of rows of the interface's matrix, transposed (H, F)."""
        return aligned(self.F)

    @cached_property
    def HP(self) -> int:
        return power_of_two(self.H, 32)

    @cached_property
    def SP(self) -> int:
        """The four sums of all units."""
        return power_of_two(4 * self.H, 128)

    @cached_property
    def JP(self) -> int:
        return power_of_two(self.J, 32)

    @cached_property
    def FP(self) -> int:
        return power_of_two(self.F, 32)

    @cached_property
    def RP(self) -> int:
        return heads_of(self.R)

    @cached_property
    def WP(self) -> int:
        return power_of_two(self.W, 16)


@dataclass(frozen=True)
class Layout(Controlled):
    """Of SAM and the SDNC; letters as in `sparsam.state`."""

    CELL: str  # "lstm", "gru" or "none"
    H: int  # 0 without a controller
    R: int
    K: int
    W: int
    KL: int  # 0 without links
    FREE: bool = False  # usage and free gates choose the rows to write anew, not the ring
    LG: bool = False  # links have gradients

    @cached_property
    def interface(self) -> Interface:
        return sparse_interface(self.R, self.W, self.KL > 0, self.FREE)

    def __getattr__(self, name: str) -> int:
        """Where a field of the interface begins; at F one that it does not have."""
        if name not in FIELDS_AT:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return self.interface.offsets().get(FIELDS_AT[name], self.F)

    @cached_property
    def KP(self) -> int:
        return reads_of(self.R, self.K)

    @cached_property
    def RK(self) -> int:
        return self.RP * self.KP

    @cached_property
    def SIZE(self) -> int:
        """Entries of a write."""
        return power_of_two(self.RK + self.RP, 16)

    @cached_property
    def ACCESSES(self) -> int:
        """Entries of a write and a read together."""
        return accesses_of(self.R, self.K)

    @cached_property
    def KLP(self) -> int:
        return power_of_two(max(self.KL, 1), 2)

    @cached_property
    def CP(self) -> int:
        """Candidates of a head's mixed read."""
        return power_of_two(self.KP + 2 * self.KP * self.KLP)

    @cached_property
    def JOURNAL(self) -> int:
        """Numbers that a step's journal of the links has (`kernels.link_gradients`)."""
        return (2 * self.SIZE + self.KLP + 1) * self.KLP


_layout = lru_cache(maxsize=256)(Layout)


def layout_of(sizes: Any, cell: str, hidden: int) -> Layout:
    units, free = 0 if cell == "none" else hidden, sizes.allocation == "free"
    links = (sizes.k_links, free, bool(sizes.link_gradients and sizes.k_links))
    return _layout(cell, units, sizes.heads, sizes.k, sizes.width, *links)
