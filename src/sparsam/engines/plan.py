"""The plan of a model: which engine runs it, fused or step by step, with which index, and why.

`resolve` makes a plan of a description. A model keeps its plan, with the facts that it was made from, until one of
them changes (`sparsam.models.contract`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from sparsam.engines.engine import ENGINES, Engine
from sparsam.memories.memory import Memory

MANY_WORDS = 16_384  # with more words than this, "auto" warns when it has to take the dense reference


class WithMemory(Protocol):
    """A module with a memory, or with none."""

    @property
    def memory(self) -> Memory | None: ...
    @property
    def engine(self) -> str: ...
    @property
    def like(self) -> Tensor: ...


class Parts(NamedTuple):
    """What a model has besides its memory, as the engines see it: None where there is nothing to say."""

    controller: str | None = None  # its name, where an engine may run it
    called: str | None = None  # why controller or interface are called at each step
    output: str | None = "it has none"  # why the output layer is called after the last step
    clips: bool = False  # whether what flows backward is limited, which not every engine does in its loop


class Plan:
    """How a model is run."""

    __slots__ = (
        *("answers", "controller", "engine", "facts", "fields", "fused", "hidden", "holds", "index", "memory"),
        *("others", "reason", "warning", "weights", "zeros"),
    )

    engine: Engine
    fused: bool  # the controller runs inside the engine's own loop
    answers: bool  # and so does the output layer
    reason: str  # why not fused, or why no faster engine; empty where nothing stands in the way
    warning: str  # what to tell the user; empty for nothing
    index: str  # what finds the K most similar words; "none" for a memory that is not searched
    memory: Any  # the memory as the engine prepared it
    holds: torch.dtype  # the type of the states
    controller: str  # what the engine calls the one that it runs, and where its weights, the interface's and, where
    weights: tuple[tuple[nn.Module, str], ...]  # it `answers`, the output layer's are: modules and names
    facts: list[Any] | None  # what the plan was made from
    hidden: int  # H of that controller
    fields: tuple[tuple[str, tuple[int, ...]], ...]  # of a state that are tensors, and their shapes without the batch
    others: tuple[tuple[str, bool], ...]  # further ones, and whether the model has them
    zeros: tuple[tuple[str, tuple[int, ...]], ...] | None  # of a fresh state, besides the memory's; None: ask the model

    def __str__(self) -> str:
        how = self.engine.name if self.fused or self.engine.name == "reference" else f"{self.engine.name}, step by step"
        return f"{how} ({self.reason})" if self.reason else how


def why_not(name: str, model: WithMemory) -> str | None:
    """Why the engine of this name cannot run `model` where its parameters are; None when it can."""
    return _why_not(name, type(model).__name__, model.engine, model.memory, model.like)


def _why_not(name: str, title: str, asked: str, memory: Memory | None, like: Tensor) -> str | None:
    if memory is None:
        return None if name == "reference" else f"it has no {title}"
    return ENGINES[name].why_not(memory, like, asked == name)


def resolve(title: str, asked: str, memory: Memory | None, like: Tensor, parts: Callable[[], Parts]) -> Plan:
    """The plan for a model of class `title`: the engine `asked` for, or with "auto" the fastest that can run it.

    `like` is a parameter; `parts` is called for an engine that runs controllers. Raises RuntimeError with the reason
    when the named engine cannot run; nothing falls back in silence.
    """
    name, reason = _choice(title, asked, memory, like)
    plan, engine = Plan(), ENGINES[name]
    if torch.compiler.is_compiling() and not engine.compiles:
        raise RuntimeError(
            f"engine {name!r} has no operators for torch.compile and torch.export; use engine='reference', or "
            "call the model outside the compiled function"
        )
    plan.engine, plan.facts, plan.fields, plan.zeros, plan.controller, plan.weights = engine, None, (), None, "", ()
    plan.hidden, plan.others = 0, ()
    plan.fused = plan.answers = False
    plan.holds = like.dtype if memory is None else engine.holds(like.dtype)
    plan.memory = None if memory is None else engine.prepare(memory, plan.holds)
    plan.index = "none" if memory is None or memory.sizes is None else memory.sizes.index.plan
    if engine.fuses:
        controller, called, output, clips = parts()
        if called is None and controller is not None and controller not in engine.fuses:
            called = f"it has no controller of kind {controller!r} in its loop"
        if called is None and clips and not engine.clips:
            called = "it has no backward_clip inside its loop"
        plan.fused, reason = called is None, reason or called or ""
        plan.answers = plan.fused and engine.answers and output is None
    plan.reason = reason
    plan.warning = _warning(plan, title, asked, memory)
    return plan


def _choice(title: str, asked: str, memory: Memory | None, like: Tensor) -> tuple[str, str]:
    """The name of the engine that runs the model, and why no faster one does."""
    if asked != "auto":
        reason = _why_not(asked, title, asked, memory, like)
        if reason is not None:
            raise RuntimeError(f"engine {asked!r} cannot run this {title}: {reason}")
        return asked, ""
    reasons: list[str] = []
    for name in ENGINES:
        reason = _why_not(name, title, asked, memory, like)
        if reason is None:
            return name, "; ".join(reasons) if name == "reference" else ""
        reasons.append(f"{name}: {reason}")
    raise RuntimeError(f"no engine can run this {title} ({'; '.join(reasons)})")


def _warning(plan: Plan, title: str, asked: str, memory: Memory | None) -> str:
    """That "auto" went to the dense reference although the memory is large, or that exact search would be faster."""
    if memory is None or memory.sizes is None:
        return ""
    index = memory.sizes.index
    fewest = index.pays_from.scored
    if plan.engine.name == "native" and index.kind and memory.rows <= fewest:
        return (
            f"index: {index} is slower than exact search in memories of up to some {fewest:,} words, such as this one; "
            "index='auto' is exact as long as that is faster"
        )
    if asked != "auto" or plan.engine.name != "reference" or memory.rows <= MANY_WORDS:
        return ""
    return (
        f"engine='auto' runs this {title} of {memory.rows:,} words in the dense reference, which touches every word at "
        f"every step ({plan.reason})"
    )
