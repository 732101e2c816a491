"""Whether a model uses its memory, and what to try where it does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sparsam.memories.memory import Memory
from sparsam.models.contract import Recurrent
from sparsam.trace import Summary

GATES = ("sigmoid", "one_plus", "softplus")  # activations of an interface's gates and strengths


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; printed, a number a line and then the advice."""

    use: Summary
    gates: dict[str, float]  # gates and strengths of the interface, a mean over heads, steps and sequences
    advice: tuple[str, ...]  # one line for each number that says that something is wrong

    def numbers(self) -> dict[str, float]:
        """All numbers by name, for a log."""
        return {**asdict(self.use), **self.gates}

    def __str__(self) -> str:
        gates = [f"{name.replace('_', ' '):26}{value:.3f}" for name, value in self.gates.items()]
        return "\n".join((str(self.use), *gates, *(f"- {line}" for line in self.advice)))


def diagnose(model: nn.Module, x: Tensor, state: Any = None, lengths: Tensor | None = None) -> Diagnosis:
    """Run sequences x, as in `model(x)`, and tell how the memory is used: share of reads on written words, how sharp,
    how old, how many rows, the gates, and a line of advice for each number that says that something is wrong.

    What was written before `x`, in a `state` that is given, is not known: then nothing is said of words never written.
    Advice is about models that need their memory; a task that does not may leave it alone. The model is run in
    evaluation mode without gradients, step by step, and is not changed.
    """
    if not isinstance(model, Recurrent) or model.memory is None:
        raise TypeError(f"model: expected a model or a layer with a memory, got {type(model).__name__}")
    vectors: list[Tensor] = []
    interface: Any = model.interface
    hook = interface.register_forward_hook(lambda module, given, vector: vectors.append(vector.detach()))
    learning = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            trace = model.eval().trace(x, state, lengths=lengths)
    finally:
        hook.remove()
        for module, was in learning.items():
            module.training = was
    use = trace.summary()
    fresh = state is None
    return Diagnosis(use, mean_gates(model.memory, vectors), tuple(advice(model.memory, use, fresh)))


def mean_gates(memory: Memory, vectors: list[Tensor]) -> dict[str, float]:
    """Fields with one number a head that are gates or strengths, from interface vectors (..., F)."""
    together = torch.cat([vector.reshape(-1, vector.shape[-1]) for vector in vectors]).float()
    wanted = [f.name for f in memory.interface.fields if len(f.shape) == 1 and f.activation in GATES]
    found = memory.interface.split(together)
    return {name: float(found[name].mean()) for name in wanted}


def advice(memory: Memory, use: Summary, fresh: bool) -> list[str]:
    """What the numbers say is wrong, the cause of the rest first."""
    if use.write_weight < 0.05 * memory.heads:
        cause = f"hardly anything is written ({use.write_weight:.3f} of a word a step)"
        return [
            f"{cause}: let the write gates begin open, and make the way around the memory unreliable (bypass_dropout)"
        ]
    found = []
    if memory.sizes is not None and use.rows_written >= memory.rows:
        found.append(f"all {memory.rows} rows are written, so old words make room: try a larger memory_size")
    if fresh and use.written_before < 0.5:
        cause = f"{1 - use.written_before:.0%} of what is read was never written"
        found.append(f"{cause}: queries do not find the words; let both begin large, and reads sharp")
    elif use.age < 1:
        cause = f"words are read {use.age:.1f} steps after they were written"
        found.append(f"{cause}: the controller holds the rest by itself; let its forget gate begin lower")
    choice = memory.rows if memory.sizes is None else memory.sizes.k
    if use.read_weight < min(1.5 / choice, 0.4):
        cause = f"reads are blurred (the largest weight of {choice} is {use.read_weight:.2f})"
        found.append(f"{cause}: let the strength begin higher")
    return found
