"""The one place where an engine is chosen.

An engine is a module with `why_not(model) -> str | None` (the reason it cannot run this model where its parameters
are), `initial_state(model, batch_size, initial_memory)` and `run(model, x, state, lengths, record)`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sparsam.engines.cuda import engine as cuda
from sparsam.engines.native import engine as native
from sparsam.engines.reference import loop as reference

ENGINES: dict[str, ModuleType] = {"reference": reference, "native": native, "cuda": cuda}
FASTEST_FIRST = ("cuda", "native", "reference")


def select(model: Any) -> ModuleType:
    """The engine that runs `model`: the one it names, or with "auto" the fastest that can.

    Raises RuntimeError with the reason when the named engine cannot run; nothing falls back in silence.
    """
    if model.engine != "auto":
        engine = ENGINES[model.engine]
        reason = engine.why_not(model)
        if reason is not None:
            raise RuntimeError(f"engine {model.engine!r} cannot run this {type(model).__name__}: {reason}")
        return engine
    reasons = {name: ENGINES[name].why_not(model) for name in FASTEST_FIRST}
    for name, reason in reasons.items():
        if reason is None:
            return ENGINES[name]
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    raise RuntimeError(f"no engine can run this {type(model).__name__} ({told})")
