"""What the dispatch needs of a module that it runs: a memory, an engine's name, and for a model its controller.

`sparsam.recurrent.Recurrent` and `sparsam.composition.MemoryModel` fit these without inheriting from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

from sparsam.engines.engine import Engine
from sparsam.memories.memory import Memory

if TYPE_CHECKING:  # the controllers import the models' parts, which import this
    from sparsam.controllers.kind import ControllerKind


class WithMemory(Protocol):
    """A module with a memory, or with none."""

    @property
    def memory(self) -> Memory | None: ...
    @property
    def engine(self) -> str:
        """The engine asked for, or "auto"."""

    @property
    def like(self) -> Tensor:
        """A parameter, for its device and type."""

    def why_not_fused(self, engine: Engine) -> str | None:
        """Why `engine` has to call parts of this module step by step; None when it need not."""


class WithController(WithMemory, Protocol):
    """A model: a controller that drives a memory through a linear map, its interface."""

    @property
    def controller(self) -> nn.Module: ...
    @property
    def controller_kind(self) -> ControllerKind: ...
    @property
    def interface(self) -> nn.Module: ...
    @property
    def hidden_size(self) -> int: ...
    def linear_output(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Weight and bias of the output layer where an engine may use them; None where it has to be called."""

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        """h_t (B, H) for an input (B, I), and the fields of the state that the controller changes."""


def memory_of(module: WithMemory) -> Memory:
    """The memory of a module that has one."""
    if module.memory is None:
        raise ValueError(f"model: expected one with a memory, got a {type(module).__name__}")
    return module.memory
