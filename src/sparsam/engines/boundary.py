"""The one autograd boundary of the fast engines: a run over T steps as one node of the graph.

An engine supplies a `Call`, which runs forward and leaves a tape, and runs backward over it. The tape becomes the
gradients, so it serves once; for a second backward pass (`retain_graph=True`, two losses) the node runs the sequence
again from where it started, at the cost of one more forward pass, and keeps nothing for that beforehand.

Every run of a fast engine in eager mode passes here: the native sequence and step, the GPU kernels, the CUDA graphs of
the dense models. A compiled graph cannot hold a Python object, so `sparsam.engines.operators` registers with
`torch.library` what these calls run, the same forward and backward. What else is differentiated by hand is no run: a
state that goes from one engine to another, the layer's convolution and linear maps, and two operations of the dense
memories.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from sparsam.engines.engine import Controller
from sparsam.transforms import has_tangent, is_batched, is_fake, under_torch_func


class Inputs(NamedTuple):
    """What a run is differentiated with respect to; None where there is no such thing.

    This is the one description of a run's weights and state: the fast engines take them in this order, the core and
    the operators of a compiled graph too.
    """

    x: Tensor  # (T, B, I), or the interface vectors (T, B, F) where there is no controller
    w_ih: Tensor | None
    w_hh: Tensor | None
    b_ih: Tensor | None
    b_hh: Tensor | None
    w_interface: Tensor | None
    b_interface: Tensor | None
    w_output: Tensor | None  # of an output layer that runs with the rest
    b_output: Tensor | None
    hidden: Tensor | None  # h (B, H)
    cell: Tensor | None  # c (B, H)
    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, K)
    memory: Tensor | None  # the words, or what stands for them in the graph
    links: Tensor | None = None  # what stands for the links, or the weights of N
    successors: Tensor | None = None  # the weights of P and p, where `links` are those of N
    precedence: Tensor | None = None


inputs_of: Any = Inputs  # for tuples, whose lengths a type checker does not follow
WEIGHTS = Inputs._fields[1:9]
FLOATS = Inputs._fields.index("memory")  # the inputs that both engines have alike
NONE = (None,) * len(WEIGHTS)
SCHEMA = ", ".join(  # of those, as an operator declares them
    ["Tensor x", *(f"Tensor? {name}" for name in (*WEIGHTS, "hidden", "cell")), "Tensor read", "Tensor read_weights"]
)


def inputs(controller: Controller | None, x: Tensor, state: Any, memory: Tensor | None, *links: Tensor | None) -> Any:
    if controller is None:
        return inputs_of(x, *NONE, None, None, state.read, state.read_weights, memory, *links)
    output = controller.output or NONE[:2]
    carried = (state.hidden, state.cell, state.read, state.read_weights)
    return inputs_of(x, *controller.weights, *controller.interface, *output, *carried, memory, *links)


class Outputs(NamedTuple):
    """What a run gives; likewise the gradients that come back."""

    joint: Tensor  # (T, B, H + R·W), or y (T, B, O) where the output layer runs with the rest
    hidden: Tensor | None
    cell: Tensor | None
    read: Tensor | None
    read_weights: Tensor | None
    memory: Tensor | None
    links: Tensor | None = None
    successors: Tensor | None = None
    precedence: Tensor | None = None


class Values(tuple[Tensor | None, ...]):
    """Inputs or outputs of a run that have no names of their own."""

    @classmethod
    def _make(cls, values: Iterable[Tensor | None]) -> Values:
        return cls(values)


def fields_after(out: Any, read_rows: Tensor | None, memory: Any, links: Any) -> dict[str, Any]:
    """The fields of a state that a run changed: of its outputs, and of what goes beside them; None for none."""
    fields = {"read": out.read, "read_rows": read_rows, "read_weights": out.read_weights, "memory": memory}
    for name, value in (("hidden", out.hidden), ("cell", out.cell), ("links", links)):
        if value is not None:
            fields[name] = value
    return fields


class Call(ABC):
    __slots__ = ()
    engine: str
    inputs: Any = Inputs  # the named tuples that it takes and gives
    outputs: Any = Outputs
    tape: Any = None  # what `forward` left for `backward`, None once it has served
    constants: tuple[Tensor, ...] = ()  # outputs of the last `forward` that have no gradient

    @abstractmethod
    def forward(self, inputs: Any, differentiable: bool) -> Any:
        """Run the steps; with `differentiable` leave a tape. Called again for a second backward pass."""

    @abstractmethod
    def backward(self, inputs: Any, gradients: Any, needed: Any) -> Any:
        """The gradients of the inputs; uses up the tape. `needed` says which inputs want one."""


def run(call: Call, inputs: Any) -> Any:
    """Run a call, as a node of the graph where anything asks for a gradient."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError(
            f"the {call.engine} engine does not run under torch.func (vmap, grad, jvp and the like); use "
            "torch.autograd.grad for gradients and the batch dimension for vmap, or engine='reference'"
        )
    if forward_ad._current_level >= 0 and any(map(has_tangent, inputs)):
        raise RuntimeError(
            f"the {call.engine} engine has no forward-mode derivatives (torch.autograd.forward_ad asks for them); use "
            "torch.autograd.grad, or engine='reference'"
        )
    if type(inputs[0]) is not Tensor and is_fake(inputs[0]):
        raise RuntimeError(
            f"the {call.engine} engine needs real numbers, not a FakeTensor; torch.compile and "
            "torch.export.export trace it, and engine='reference' runs under FakeTensorMode"
        )
    if torch.is_grad_enabled():
        for value in inputs:
            if value is not None and value.requires_grad:
                return call.outputs._make(apply(call, *inputs))
    return call.forward(inputs, False)


def refuse_batched(engine: str, gradients: Iterable[Tensor | None]) -> None:
    """Raises RuntimeError for several gradients in one."""
    if under_torch_func() or any(map(is_batched, gradients)):
        raise RuntimeError(
            f"the {engine} engine differentiates one gradient at a time (is_grads_batched=True and vmap over a "
            "backward pass ask for several); call torch.autograd.grad in a loop with retain_graph=True, or use "
            "engine='reference'"
        )


class Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.call = call
        outputs = call.forward(call.inputs._make(inputs), True)
        if call.constants:
            ctx.mark_non_differentiable(*call.constants)
        return outputs  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        call: Call = ctx.call
        refuse_batched(call.engine, gradients)
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"the {call.engine} engine has no second derivatives (create_graph=True asks for them); "
                "use engine='reference'"
            )
        try:
            inputs = call.inputs._make(ctx.saved_tensors)
        except RuntimeError as error:
            raise RuntimeError(
                "the graph of an earlier call was freed by its backward pass; pass its state on as state.detach(), or "
                f"call backward with retain_graph=True ({error})"
            ) from error
        if call.tape is None:
            call.forward(inputs, True)
        needed = call.inputs._make(ctx.needs_input_grad[1:])
        return None, *call.backward(inputs, call.outputs._make(gradients), needed)


# `Node.apply` without its look at torch.func's wrappers, which `run` has had, and which takes longer than all the rest.
apply = super(torch.autograd.Function, Node).apply
