"""The fast engines as operators of PyTorch, for `torch.compile` and `torch.export` (docs/howto/compile.md).

    sparsam::sequence, ::cuda_sequence   a whole sequence: controller (lstm, gru or none) and memory; one step is T = 1
    sparsam::blank, ::begin              a fresh native memory: blank, or with a user's words
    sparsam::choose                      per batch element one of two native memories

and the gradients of each, `..._backward`. An operator is a function of its arguments: nothing is mutated, and running
one twice gives the same numbers. Eager calls do not come here.

This is the table of them all. The functions of operator `name` are in its engine's module, which is loaded when one of
them is first called: `name`, `name_fake` (the shapes of its outputs) and, where it has gradients, `name_keep` and
`name_differentiate`. An exported program needs the table alone, so `import sparsam` is enough to load one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines.boundary import SCHEMA, WEIGHTS

NATIVE, CUDA = "sparsam.engines.native.operators", "sparsam.engines.cuda.operators"
SETTINGS = "str sizes, str controller, int hidden_size, float clip"
STEPS = ("joint", "hidden", "cell", "read", "read_weights")  # what both engines put out and differentiate, memory apart
MADE = ", ".join(f"Tensor {name}" for name in STEPS)
GIVEN = ", ".join(f"Tensor? d_{name}" for name in STEPS)
PARAMETERS = ", ".join(["Tensor x", *(f"Tensor? {name}" for name in WEIGHTS)])

NATIVE_INPUTS = f"{SCHEMA}, Tensor memory, Tensor read_rows, Tensor? ends, {SETTINGS}"
CUDA_INPUTS = (
    f"{SCHEMA}, Tensor words, Tensor read_rows, Tensor last_access, Tensor counters, Tensor queue_rows, "
    f"Tensor queue_stamps, Tensor? usage, Tensor[] links, Tensor? ends, {SETTINGS}, SymInt touched, SymInt entries"
)
CUDA_OUTPUTS = (
    f"{MADE}, Tensor words, Tensor read_rows, Tensor last_access, Tensor counters, Tensor queue_rows, "
    "Tensor queue_stamps, Tensor usage, Tensor n_columns, Tensor n_weights, Tensor p_columns, Tensor p_weights, "
    "Tensor columns, Tensor weights, Tensor tape"
)


class Operator(NamedTuple):
    """An operator `sparsam::<name>`."""

    module: str  # where its functions are
    schema: str
    differentiable: bool = True


OPERATORS = {
    "sequence": Operator(
        NATIVE, f"({NATIVE_INPUTS}, bool record) -> ({MADE}, Tensor memory, Tensor rows, Tensor tape)"
    ),
    "sequence_backward": Operator(
        NATIVE,
        f"({NATIVE_INPUTS}, Tensor tape, {GIVEN}, Tensor? d_memory, bool needs_x, bool needs_memory) -> Tensor[]",
        False,
    ),
    "blank": Operator(NATIVE, "(SymInt batch, str kind, Tensor like) -> Tensor", False),
    "begin": Operator(NATIVE, "(Tensor words, SymInt batch, str kind) -> Tensor"),
    "begin_backward": Operator(NATIVE, "(Tensor d_memory, Tensor words) -> Tensor", False),
    "choose": Operator(NATIVE, "(Tensor mask, Tensor where_true, Tensor where_false) -> Tensor"),
    "choose_backward": Operator(NATIVE, "(Tensor mask, Tensor gradient) -> (Tensor, Tensor)", False),
    "cuda_sequence": Operator(CUDA, f"({CUDA_INPUTS}) -> ({CUDA_OUTPUTS})"),
    "cuda_sequence_backward": Operator(
        CUDA,
        f"({PARAMETERS}, Tensor? ends, Tensor joint, Tensor tape, {SETTINGS}, SymInt rows_before, SymInt rows_after, "
        f"{GIVEN}, Tensor? d_words, Tensor[] columns, Tensor? d_predecessors, Tensor? d_successors, "
        "Tensor? d_precedence, bool needs_words) -> Tensor[]",
        False,
    ),
}


def none_or(value: Tensor | None, like: Tensor) -> Tensor:
    """An operator returns tensors alone; what is not there is an empty one."""
    return like.new_empty(0) if value is None else value


def function(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is loaded when it is first called."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return call


for _name, (_module, _schema, _differentiable) in OPERATORS.items():
    _operator: Any = torch.library.custom_op(
        f"sparsam::{_name}", function(_module, _name), mutates_args=(), schema=_schema
    )
    _operator.register_fake(function(_module, f"{_name}_fake"))
    if _differentiable:
        _operator.register_autograd(
            function(_module, f"{_name}_differentiate"), setup_context=function(_module, f"{_name}_keep")
        )
