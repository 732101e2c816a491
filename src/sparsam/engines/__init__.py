"""The one place where an engine is chosen, and where it is called."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sparsam import checks
from sparsam.controllers.untouched import untouched_linear, why_touched
from sparsam.engines import ops, stepwise
from sparsam.engines.cuda import engine as cuda
from sparsam.engines.engine import CHOSEN, ENGINES, Cell, Engine, Ran, register
from sparsam.engines.feedforward import FEEDFORWARD
from sparsam.engines.module import WithController, WithMemory, memory_of
from sparsam.engines.native import engine as native
from sparsam.engines.reference import engine as reference
from sparsam.state import State

__all__ = ["ENGINES", "Cell", "Engine", "Plan", "Ran", "convert", "cuda", "names", "native", "ops", "plan", "reference"]
__all__ += ["Went", "engine_of", "register", "run", "run_memory", "untouched_linear", "why_not", "why_touched"]

MANY_WORDS = 16_384  # with more words than this, "auto" warns when it has to take the dense reference

_warned: weakref.WeakSet[WithMemory] = weakref.WeakSet()


class Plan(NamedTuple):
    """How a model is run."""

    engine: Engine
    fused: bool  # the controller runs inside the engine's own loop
    reason: str  # why not fused, or why no faster engine; empty where nothing stands in the way

    def __str__(self) -> str:
        how = self.engine.name if self.fused or self.engine.name == "reference" else f"{self.engine.name}, step by step"
        return f"{how} ({self.reason})" if self.reason else how


def names() -> tuple[str, ...]:
    """What `engine=` takes."""
    return ("auto", *ENGINES)


def why_not(name: str, model: WithMemory) -> str | None:
    """Why the engine of this name cannot run `model` where its parameters are; None when it can."""
    if model.memory is None:
        return None if name == "reference" else f"it has no {type(model).__name__}"
    return ENGINES[name].why_not(model.memory, model.like, model.engine == name)


def plan(model: WithMemory) -> Plan:
    """The engine that runs `model`: the one it names, or with "auto" the fastest that can.

    Raises RuntimeError with the reason when the named engine cannot run; nothing falls back in silence.
    """
    return _planned(model, *_known_choice(model))


def engine_of(model: WithMemory) -> Engine:
    """`plan(model).engine`, without a look at whether the controller runs inside it."""
    return _compiling(ENGINES[_known_choice(model)[0]])


def _known_choice(model: WithMemory) -> tuple[str, str]:
    """`_choice`, made once for a memory, type and device."""
    if model.memory is None or torch.compiler.is_compiling():
        return _choice(model)
    like = model.like  # a changed setting is another memory, so these are all that the choice depends on
    key, known = (model.engine, like.dtype, like.device), CHOSEN.setdefault(model.memory, {})
    if key not in known:
        known[key] = _choice(model)
    return known[key]


def _choice(model: WithMemory) -> tuple[str, str]:
    """The name of the engine that runs `model`, and why no faster one does."""
    if model.engine != "auto":
        reason = why_not(model.engine, model)
        if reason is not None:
            raise RuntimeError(f"engine {model.engine!r} cannot run this {type(model).__name__}: {reason}")
        return model.engine, ""
    reasons: list[str] = []
    for name in ENGINES:
        reason = why_not(name, model)
        if reason is None:
            return name, "; ".join(reasons) if name == "reference" else ""
        reasons.append(f"{name}: {reason}")
    raise RuntimeError(f"no engine can run this {type(model).__name__} ({'; '.join(reasons)})")


def _compiling(engine: Engine) -> Engine:
    """The engine, where it can run as torch compiles."""
    if torch.compiler.is_compiling() and not engine.compiles:
        raise RuntimeError(
            f"engine {engine.name!r} has no operators for torch.compile and torch.export; use engine='reference', or "
            "call the model outside the compiled function"
        )
    return engine


def _planned(model: WithMemory, name: str, reason: str) -> Plan:
    engine = _compiling(ENGINES[name])
    unfused = model.why_not_fused(engine) if engine.fuses else None
    return Plan(engine, bool(engine.fuses) and unfused is None, reason or unfused or "")


def warn_of_dense(model: WithMemory, chosen: Plan) -> None:
    """Say once that "auto" went to the dense reference although the memory is large."""
    if model.engine != "auto" or chosen.engine.name != "reference" or model.memory is None or model in _warned:
        return
    if model.memory.rows > MANY_WORDS and model.memory.sizes is not None:
        _warned.add(model)
        warnings.warn(
            f"engine='auto' runs this {type(model).__name__} of {model.memory.rows:,} words in the dense reference, "
            f"which touches every word at every step ({chosen.reason})",
            stacklevel=6,
        )


def convert(state: State, engine: str) -> State:
    """`state` as the named engine holds it."""
    return ENGINES[checks.one_of("engine", engine, ENGINES)].convert(state)


class Went(NamedTuple):
    """What a model's run over T steps gives."""

    joint: Tensor  # (T, B, H + R·W): [h_t, r_t], or y (T, B, O) where `answered`
    answered: bool  # the engine has run the output layer as well
    state: State
    accesses: Any


def run(model: WithController, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> Went:
    """Controller and memory through x (T, B, I), and the output layer too where the engine has a place for it."""
    chosen, memory, kind = plan(model), memory_of(model), model.controller_kind
    warn_of_dense(model, chosen)
    chosen.engine.check(memory, state)
    one_step = kind.cell == FEEDFORWARD and x.shape[0] == 1  # its two gates too many would cost more than they save
    if not chosen.fused or one_step:
        joint, after, accesses = stepwise.run(model, chosen.engine, x, state, ends, record)
        return Went(joint, False, after, accesses)
    interface = linear_parameters(model.interface)
    output = model.linear_output(x) if chosen.engine.answers else None
    cell = Cell(str(kind.cell), model.hidden_size, kind.weights(model.controller), interface, output)
    ran = chosen.engine.sequence(memory, cell, x, state, ends, record)
    return Went(ran.joint, output is not None, state.with_fields(**ran.fields), ran.accesses)


def run_memory(model: WithMemory, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
    """A memory without a controller through interface vectors (T, B, F)."""
    chosen, memory = plan(model), memory_of(model)
    warn_of_dense(model, chosen)
    chosen.engine.check(memory, state)
    return chosen.engine.steps(memory, vectors, state, ends, record)


def linear_parameters(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear layer of which `untouched_linear` says that they can be read."""
    assert isinstance(module, nn.Linear)
    return module.weight, module.bias
