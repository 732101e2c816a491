"""Sizes of the GPU kernels: what a description and a controller come to, and the powers of two that hold it.

Tensors in memory are not padded, they have the models' order; only the blocks that a program holds are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from sparsam.memories.interface import sparse_interface

CONTROLLERS = ("lstm", "gru", "none")
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

    CONTROLLER: str  # "lstm", "gru" or "none"
    H: int  # 0 without a controller
    R: int
    W: int
    interface: Any  # an `Interface`

    J = cached_property(lambda size: size.H + size.R * size.W)  # width of [h, r]
    F = cached_property(lambda size: size.interface.size)  # of the interface, as it is declared, as are its fields
    JS = cached_property(lambda size: aligned(size.J))  # distance of rows of the recurrent matrix (4 H, J)
    HS = cached_property(lambda size: aligned(size.H))  # of the interface's matrix (F, H)
    FS = cached_property(lambda size: aligned(size.F))  # and of that transposed (H, F)
    HP = cached_property(lambda size: power_of_two(size.H, 32))
    SP = cached_property(lambda size: power_of_two(4 * size.H, 128))  # the four sums of all units
    JP = cached_property(lambda size: power_of_two(size.J, 32))
    FP = cached_property(lambda size: power_of_two(size.F, 32))
    RP = cached_property(lambda size: heads_of(size.R))
    WP = cached_property(lambda size: power_of_two(size.W, 16))


@dataclass(frozen=True)
class Layout(Controlled):
    """Of SAM and the SDNC; letters as in `sparsam.state`."""

    CONTROLLER: str  # "lstm", "gru" or "none"
    H: int  # 0 without a controller
    R: int
    K: int
    W: int
    KL: int  # 0 without links
    FREE: bool = False  # usage and free gates choose the rows to write anew, not the ring
    LG: bool = False  # links have gradients

    interface = cached_property(lambda size: sparse_interface(size.R, size.W, size.KL > 0, size.FREE))
    KP = cached_property(lambda size: reads_of(size.R, size.K))
    RK = cached_property(lambda size: size.RP * size.KP)
    SIZE = cached_property(lambda size: power_of_two(size.RK + size.RP, 16))  # entries of a write
    ACCESSES = cached_property(lambda size: accesses_of(size.R, size.K))  # of a write and a read together
    KLP = cached_property(lambda size: power_of_two(max(size.KL, 1), 2))
    CP = cached_property(lambda size: power_of_two(size.KP + 2 * size.KP * size.KLP))  # candidates of a mixed read
    JOURNAL = cached_property(lambda size: (2 * size.SIZE + size.KLP + 1) * size.KLP)  # of `kernels.link_gradients`

    def __getattr__(self, name: str) -> Any:
        """Where a field of the interface begins; at F one that it does not have."""
        if name not in FIELDS_AT:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return self.interface.offsets().get(FIELDS_AT[name], self.F)


_layout = lru_cache(maxsize=256)(Layout)


def layout_of(sizes: Any, controller: str, hidden: int) -> Layout:
    units, free = 0 if controller == "none" else hidden, sizes.allocation == "free"
    links = (sizes.k_links, free, bool(sizes.link_gradients and sizes.k_links))
    return _layout(controller, units, sizes.heads, sizes.k, sizes.width, *links)
