"""The one autograd boundary of the fast engines: a run over T steps as one node of the graph.

An engine supplies a `Call`, which runs forward and leaves a tape, and runs backward over it. The tape becomes the
gradients, so it serves once; for a second backward pass (`retain_graph=True`, two losses) the node runs the sequence
again from where it started, at the cost of one more forward pass, and keeps nothing for that beforehand.

Every run of a fast engine in eager mode passes here: the native sequence and step, the GPU kernels, the CUDA graphs of
the dense models. A compiled graph cannot hold a Python object, so `sparsam.engines.ops` and
`sparsam.engines.cuda.operators` register with `torch.library` what these calls run, the same forward and backward. What
else is differentiated by hand is no run: a state that goes from one engine to another, the layer's convolution, and two
steps of the dense memories (`sparsam.memories.fused`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """What a run is differentiated with respect to; None where there is no such thing."""

    x: Tensor  # (T, B, I), or the interface vectors (T, B, F) where there is no cell
    w_ih: Tensor | None
    w_hh: Tensor | None
    b_ih: Tensor | None
    b_hh: Tensor | None
    w_interface: Tensor | None
    b_interface: Tensor | None
    hidden: Tensor | None  # h (B, H)
    cell: Tensor | None  # c (B, H)
    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, K)
    w_output: Tensor | None  # of an output layer that runs with the rest
    b_output: Tensor | None
    memory: Tensor | None  # what stands for the memory in the graph
    links: Tensor | None  # likewise for the links


class Outputs(NamedTuple):
    """What a run gives; likewise the gradients that come back."""

    joint: Tensor  # (T, B, H + R·W), or y (T, B, O) where the output layer runs with the rest
    hidden: Tensor | None
    cell: Tensor | None
    read: Tensor | None
    read_weights: Tensor | None
    memory: Tensor | None
    links: Tensor | None


class Call(ABC):
    """One call of a fast engine."""

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
            f"the {call.engine} engine runs under no transform of torch.func (vmap, grad, jvp and the like); use "
            "torch.autograd.grad for gradients and the batch dimension for vmap, or engine='reference'"
        )
    if torch.is_grad_enabled():
        for value in inputs:
            if value is not None and value.requires_grad:
                return call.outputs._make(apply(call, *inputs))
    return call.forward(inputs, False)


class Node(torch.autograd.Function):
    """A call in the graph."""

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
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"the {call.engine} engine has no second derivatives (create_graph=True asks for them); "
                "use engine='reference'"
            )
        try:
            inputs = call.inputs._make(ctx.saved_tensors)
        except RuntimeError as error:
            raise RuntimeError(
                "the graph of an earlier call was freed by its backward pass; hand its state on as state.detach(), or "
                f"call backward with retain_graph=True ({error})"
            ) from error
        if call.tape is None:
            call.forward(inputs, True)
        needed = call.inputs._make(ctx.needs_input_grad[1:])
        return None, *call.backward(inputs, call.outputs._make(gradients), needed)


# `Node.apply` without its look at torch.func's wrappers, which `run` has had, and which takes longer than all the rest.
apply = super(torch.autograd.Function, Node).apply


def kept_bytes(y: Tensor) -> int:
    """Bytes that the forward pass that put out `y` keeps for its backward pass: the tape and the journals."""
    seen, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        call = getattr(node, "call", None)
        kept = call.tape.bytes if isinstance(call, Call) and call.tape is not None else None
        if kept is not None:
            return int(kept)
        todo += [after for after, _ in node.next_functions]
    raise ValueError("y: expected an output of a fast engine that still waits for its backward pass")
