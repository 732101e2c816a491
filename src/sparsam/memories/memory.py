"""What a memory is to the models and the engines: an interface, a state, and one step in plain PyTorch.

A memory has no parameters and holds nothing of an episode. A further one is a file beside `sam.py`: a subclass of
`Memory` that declares its interface and gives `fresh` and `step` (docs/extending.md).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from sparsam import checks
from sparsam.memories.description import SparseSizes
from sparsam.memories.interface import Interface
from sparsam.state import State
from sparsam.trace import Access, DenseAccess

Step = tuple[Tensor, dict[str, Any], Sequence[Access | DenseAccess]]


class Memory(ABC):
    """N words of width W, read by R heads (`rows`, `width`, `heads`)."""

    name: ClassVar[str]
    state_class: ClassVar[type[State]]
    rows: int
    width: int
    heads: int
    sizes: SparseSizes | None = None  # the description of a sparse memory

    @property
    def read_size(self) -> int:
        """R·W, the width of what a step reads."""
        return self.heads * self.width

    @property
    @abstractmethod
    def interface(self) -> Interface:
        """The fields of the interface vector."""

    @abstractmethod
    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        """The memory's fields of a state that nothing has touched; `initial` (N, W) or (B, N, W), None for blank."""

    @abstractmethod
    def step(self, vector: Tensor, state: Any) -> Step:
        """One step for an interface vector (B, F) before its activation, from a state of `state_class`.

        Returns the words read (B, R, W), the fields of the state that changed, and what was accessed.
        """

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of the memory's fields that has one, without its batch dimension."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What a `repr` shows."""

    def fewest(self) -> tuple[str, int]:
        """The rows that a step may read and write: a formula of the model's arguments, and the number."""
        return "1", 1

    def warn_if_small(self) -> None:
        """Say at construction that a step has to overwrite what the one before it has read."""
        formula, rows = self.fewest()
        if self.rows < rows:
            warnings.warn(
                f"memory_size={self.rows} is less than {formula} = {rows}, the rows that one step may read and write, "
                "so a step overwrites rows that the step before it has read",
                stacklevel=checks.callers_level(),
            )

    def options(self) -> dict[str, Any]:
        """Options of later work that are in use; not every engine has them."""
        return {}
