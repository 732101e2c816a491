"""The engines: how each is found by its name. `sparsam.engines.plan` says which one runs a model."""

from __future__ import annotations

from sparsam import checks
from sparsam.engines import operators, reference
from sparsam.engines.cuda import engine as cuda
from sparsam.engines.engine import ENGINES, Controller, Engine, Ran, register
from sparsam.engines.native import engine as native
from sparsam.engines.plan import Parts, Plan, resolve, why_not
from sparsam.state import State

__all__ = ["ENGINES", "Controller", "Engine", "Parts", "Plan", "Ran", "convert", "cuda", "names", "native", "operators"]
__all__ += ["reference", "register", "resolve", "why_not"]


def names() -> tuple[str, ...]:
    """What `engine=` takes."""
    return ("auto", *ENGINES)


def convert(state: State, engine: str) -> State:
    return ENGINES[checks.one_of("engine", engine, ENGINES)].convert(state)
