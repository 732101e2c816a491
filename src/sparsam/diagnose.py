"""Whether a model uses its memory, and what to try where it does not."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sparsam import checks
from sparsam.memories.memory import Memory
from sparsam.models.contract import Recurrent
from sparsam.state import State
from sparsam.trace import Summary

GATES = ("sigmoid", "one_plus", "softplus")  # activations of an interface's gates and strengths


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. Printed, it shows a number per line and then the advice."""

    use: Summary
    gates: dict[str, float]  # gates and strengths of the interface, a mean over heads, steps and sequences
    advice: tuple[str, ...]  # one line for each number that says that something is wrong

    def numbers(self) -> dict[str, float]:
        """All numbers by name, for a log."""
        return {**asdict(self.use), **self.gates}

    def __str__(self) -> str:
        gates = [f"{name.replace('_', ' '):26}{value:.3f}" for name, value in self.gates.items()]
        return "\n".join((str(self.use), *gates, *(f"- {line}" for line in self.advice)))


def diagnose(
    model: Recurrent[Any],
    x: Tensor,
    state: State | Tensor | tuple[Tensor, Tensor] | None = None,
    lengths: Tensor | None = None,
) -> Diagnosis:
    """Run sequences x, as in `model(x)`, and report how the memory is used, with advice for numbers that look wrong.

    The report has the rows read and written, the share of reads that found written words, how sharp the reads were, how
    old the words were, and the mean gates. With a `state`, it cannot know what was written before `x`, and says nothing
    about words that were never written. A task that needs no memory may leave it alone, whatever the advice says. The
    model runs in evaluation mode without gradients and is not changed.
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
    batch = x.shape[0 if model.batch_first else 1]
    asked = torch.cat([vector.reshape(-1, batch, vector.shape[-1]) for vector in vectors]).float()
    if lengths is not None:  # what padding asks for counts for nothing
        steps = torch.arange(len(asked), device=asked.device)[:, None]
        asked = asked[steps < checks.as_tensor("lengths", lengths, "integers").to(asked.device)]
    use, gates = trace.summary(), mean_gates(model.memory, asked.flatten(0, -2))
    broken = not_finite(model, gates)
    past = state is None and x.shape[1 if model.batch_first else 0] > 1
    return Diagnosis(use, gates, tuple([broken] if broken else advice(model.memory, use, gates, past)))


def mean_gates(memory: Memory, vectors: Tensor) -> dict[str, float]:
    """Fields with one number a head that are gates or strengths, from interface vectors (steps, F)."""
    wanted = [f.name for f in memory.interface.fields if len(f.shape) == 1 and f.activation in GATES]
    found = memory.interface.split(vectors)
    return {name: float(found[name].mean()) for name in wanted}


def not_finite(model: nn.Module, gates: dict[str, float]) -> str | None:
    """Which numbers are not finite, where there are any: nothing else can then be said."""
    for name, value in model.named_parameters():
        if not value.isfinite().all():
            return f"{name} is not finite: go back to earlier weights, with a lower rate or backward_clip=10"
    if all(map(math.isfinite, gates.values())):
        return None
    return "x or the state has numbers that are not finite, and all steps after them are lost"


def advice(memory: Memory, use: Summary, gates: dict[str, float], past: bool) -> list[str]:
    """What the numbers say is wrong, the cause of the rest first. `past`: what was written before a read is known."""
    if use.write_weight < 0.05 * memory.heads:
        cause = f"hardly anything is written ({use.write_weight:.3f} of a word a step)"
        return [f"{cause}: start with open write gates (write=2 of sparsam.Start), or try bypass_dropout=0.1"]
    found = []
    if memory.sizes is not None and use.rows_written >= 0.85 * memory.rows:  # rows read again and again are kept
        cause = f"{use.rows_written:.0f} of {memory.rows} rows are written"
        found.append(f"{cause}, so new words replace old ones: try a larger memory_size")
    if past and use.written_before < 0.25:
        cause = f"{1 - use.written_before:.0%} of what is read was never written"
        found.append(f"{cause}: start with larger queries and words (words=2 of sparsam.Start)")
    elif past and use.age < 1:
        cause = f"words are read {use.age:.1f} steps after they were written"
        found.append(
            f"{cause}: the task needs no memory, or the controller remembers by itself (forget=-2 of sparsam.Start)"
        )
    choice = memory.rows if memory.sizes is None else memory.sizes.k
    strengths = [gates[field.name] for field in memory.interface.fields if field.role == "sharpness"]
    if use.read_weight < min(1.5 / choice, 0.4) and min(strengths) < 4:  # with more, words that are alike share a read
        cause = f"reads are blurred (the largest weight of {choice} is {use.read_weight:.2f})"
        found.append(f"{cause}: start with a higher strength (sharpness=5 of sparsam.Start)")
    return found
