"""The frozen description of a sparse memory, as the kernels' callers give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """What SAM's and the SDNC's memory is: anything with these fields will do."""

    rows: int  # N
    width: int  # W
    heads: int  # R
    k: int  # K
    similarity: str = "cosine"
    delta: float = 0.005
    k_links: int = 0  # K_L, 0 for no links
    link_gradients: bool = False
    allocation: str = "ring"
    index: Any = None
