"""What an engine is: it holds memories and steps them, given descriptions and tensors, never models.

A further engine is one module with a subclass of `Engine` and a call of `register` (docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from sparsam.memories.memory import Memory
from sparsam.memories.sam import SAMMemory
from sparsam.memories.sdnc import SDNCMemory
from sparsam.state import State
from sparsam.trace import Access


class Ran(NamedTuple):
    joint: Tensor  # (T, B, H + R·W): [h_t, r_t]; r_t alone without a controller, y (T, B, O) with its output layer
    fields: dict[str, Any]  # of the state that changed
    accesses: Sequence[Access]  # where they were asked for


class Controller(NamedTuple):
    """A controller that an engine runs inside its own loop."""

    name: str  # "lstm", "gru" or "feedforward"
    hidden: int  # H
    weights: tuple[Tensor, ...]  # W_ih, W_hh, b_ih, b_hh; W and b of "feedforward"
    interface: tuple[Tensor, Tensor]  # weight and bias of the linear map from h to the interface vector
    output: tuple[Tensor, Tensor] | None = None  # likewise from [h, r] to y, for an engine that `answers`
    clip: float | None = None  # limit on what flows backward (`sparsam.engines.clipping`), for one that `clips`


def settings_of(controller: Controller | None) -> tuple[str, int, float]:
    """Its name, H and limit, as the core and the operators take them."""
    return ("none", 0, 0.0) if controller is None else (controller.name, controller.hidden, controller.clip or 0.0)


class Engine(ABC):
    """Base of all engines."""

    name: ClassVar[str]
    stores: ClassVar[str] = ""  # the engine whose memories it takes, where they are not its own
    rank: ClassVar[int] = 0  # "auto" asks the engine of the highest rank first
    compiles: ClassVar[bool] = False  # whether torch.compile and torch.export can trace it
    fuses: ClassVar[tuple[str, ...]] = ()  # the controllers that it runs inside its own loop
    answers: ClassVar[bool] = False  # whether it runs a linear output layer there too
    clips: ClassVar[bool] = False  # whether it limits what flows backward there, where a model asks for it

    @abstractmethod
    def why_not(self, memory: Memory, like: Tensor, by_name: bool) -> str | None:
        """Why it cannot run this memory where `like` is; None when it can. `by_name`: the user named it; not "auto"."""

    def holds(self, dtype: torch.dtype) -> torch.dtype:
        """The type of the states of a model whose parameters are of type `dtype`."""
        return dtype

    def prepare(self, memory: Memory, dtype: torch.dtype) -> Any:
        """What the other methods take for this memory with states of type `dtype`; made once for a plan."""
        return memory

    @abstractmethod
    def fresh(self, memory: Memory, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        """The memory's fields of a state that nothing has touched."""

    def start(self, memory: Memory, batch: int, like: Tensor) -> dict[str, Any]:
        """`fresh` of a blank memory for a call that was given no state; nobody else gets to write to its tensors."""
        return self.fresh(memory, batch, None, like)

    @abstractmethod
    def steps(self, memory: Memory, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        """Step the memory through interface vectors (T, B, F) before their activation.

        `ends` (B,) are lengths in 0..T: later steps of an element change nothing and read 0.
        """

    def step(self, memory: Memory, vector: Tensor, state: Any, active: Tensor | None, record: bool) -> Ran:
        """Step the memory once for interface vectors (B, F); `joint` is r_t (B, R, W).

        Elements where `active` (B,) does not hold keep their state and read 0.
        """
        ran = self.steps(memory, vector[None], state, None if active is None else active.long(), record)
        return ran._replace(joint=ran.joint[0].unflatten(-1, (memory.heads, memory.width)))

    def sequence(
        self, memory: Memory, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> Ran:
        """Run controller and memory through x (T, B, I)."""
        raise RuntimeError(f"engine {self.name!r} runs no controllers")

    @abstractmethod
    def convert(self, state: State) -> State:
        """A state of any engine as this one holds it, exactly."""

    def check(self, memory: Memory, state: Any) -> None:
        for name in ("memory", "links"):
            held = getattr(getattr(state, name, None), "engine", None)
            if held is not None and held != (self.stores or self.name):
                raise ValueError(
                    f"state: expected one of engine {self.name!r}, got one of engine {held!r}; "
                    f"convert it with state.to(engine={self.name!r})"
                )


def check_sizes(memory: Memory | None, state: Any) -> None:
    """Raises ValueError for a state whose links or usage are those of other settings; their shapes do not show it."""
    sizes, links = None if memory is None else memory.sizes, getattr(state, "links", None)
    if sizes is None:
        return
    if links is not None and links.k_links != sizes.k_links:
        raise ValueError(f"state: expected links with K_L = {sizes.k_links}, got K_L = {links.k_links}")
    if (getattr(state.memory, "usage", None) is not None) != (sizes.allocation == "free"):
        raise ValueError(f"state: expected one of allocation={sizes.allocation!r}, got one of the other")


STEPS = (SAMMemory, SDNCMemory)  # of these memories the fast engines know the steps


def why_unknown(memory: Memory) -> str | None:
    """Why a fast engine cannot run a sparse memory: it is none, or a class of its own, or has a part that is new."""
    if memory.sizes is None:
        return f"it has no {memory.name.upper()}"
    if type(memory) not in STEPS:
        return f"a {type(memory).__name__} has steps of its own"
    options = [f"{name}={value}" for name, value in memory.options().items()]
    return f"it has no {' and no '.join(options)}" if options else None


def converted_state(state: State, fields: Any) -> State:
    """`state` with `fields(state)` in place of its stores, and its start likewise."""
    changed = state.with_fields(**fields(state))
    start = getattr(state, "start", None)
    if start is None:
        return changed
    return changed.with_fields(start=converted_state(start, fields))


def traced_description(memory: Any, record: bool) -> str:
    """The description of a sparse memory as a constant of the graph that is traced."""
    if record:
        raise RuntimeError("trace: expected a call outside torch.compile and torch.export, which record no accesses")
    if memory.text is None:
        raise RuntimeError(f"index: expected one of sparsam.indexes in a compiled call, got {memory.sizes.index!r}")
    text: str = memory.text
    return text


ENGINES: dict[str, Engine] = {}  # the fastest first
REGISTERED = [0]  # how many engines there have been: a plan made before the last one came is out of date


def register(engine: Engine) -> Engine:
    ENGINES[engine.name] = engine
    ordered = sorted(ENGINES.values(), key=lambda known: -known.rank)
    ENGINES.clear()
    ENGINES.update({known.name: known for known in ordered})
    REGISTERED[0] += 1
    return engine
