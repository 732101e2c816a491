"""A sequence of NTM, DAM or DNC in one launch forward and one backward, where a program can hold the memory.

Like SAM's (`sparsam.engines.cuda.program`): one program steps one batch element through time, and what can be one
product over all steps stays with torch. The state after every step lies on the tape, which is what the paper says dense
models cost: N W numbers a step, N^2 more for the DNC's links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import Values
from sparsam.engines.cuda.dense.layout import DenseLayout, dense_layout
from sparsam.engines.cuda.dense.tape import DenseTape
from sparsam.engines.cuda.launch import PRODUCT, bound, constants_of, no_tensor, on_device_of, packed_at_once
from sparsam.engines.cuda.program import ends_of, plain
from sparsam.engines.cuda.weights import (
    Weights,
    aligned_tensor,
    input_sums,
    packed_backward,
    weight_gradients,
)
from sparsam.engines.engine import Controller, Ran

# Fields of a state, as the tape has them; a model has some of them.
FIELDS = {
    "memory": "words",
    "read_weights": "weights",
    "write_weights": "written",
    "usage": "usage",
    "precedence": "precedence",
    "link": "link",
}
PIECE = 256  # steps that have a tape when nobody wants gradients
CONSTANT = {"dam": ("usage",)}  # fields without a gradient


@dataclass(eq=False)
class DenseRun:
    """A forward pass, as its backward pass needs it. It can be run backward more than once."""

    x: Tensor
    weights: Weights
    tape: DenseTape
    ends: Tensor  # (B,) int32

    @property
    def bytes(self) -> int:
        return self.tape.bytes


def run(memory: Any, controller: Controller, x: Tensor, state: Any, ends: Tensor | None, record: bool = False) -> Ran:
    """Run x (T, B, I) from `state`, a state of the reference, with an LSTM or a GRU; it records nothing."""
    if x.shape[0] > PIECE and not torch.is_grad_enabled():
        return _by_pieces(memory, controller, x, state, ends)
    size = dense_layout(memory, controller.name, controller.hidden)
    names = [name for name in FIELDS if name in memory.shapes()]
    carried = [state.hidden, state.cell if controller.name == "lstm" else None, state.read]
    call = DenseCall(size, getattr(memory, "discount", 0.0), names, ends)
    held = [getattr(state, name) for name in names]
    joint, hidden, cells, read, *after = boundary.run(
        call, Values((x, *controller.weights, *controller.interface, *carried, *held))
    )
    fields = {"hidden": hidden, "read": read, **dict(zip(names, after))}
    if controller.name == "lstm":
        fields["cell"] = cells
    return Ran(joint, fields, [])


def _by_pieces(memory: Any, controller: Controller, x: Tensor, state: Any, ends: Tensor | None) -> Ran:
    """The same without gradients, so that no longer sequence than `PIECE` has a tape."""
    joints: list[Tensor] = []
    fields: dict[str, Any] = {}
    for begin in range(0, x.shape[0], PIECE):
        part = x[begin : begin + PIECE]
        left = None if ends is None else (ends - begin).clamp(0, part.shape[0])
        joint, fields, _ = run(memory, controller, part, state, left)
        state = state.with_fields(**fields)
        joints.append(joint)
    return Ran(torch.cat(joints), fields, [])


class DenseCall(boundary.Call):
    """From x, six parameters, hidden, cell, read and the memory's fields to [h, r] and all but the parameters."""

    engine = "cuda"
    inputs = outputs = Values

    def __init__(self, size: DenseLayout, discount: float, names: list[str], lengths: Tensor | None) -> None:
        self.size, self.discount, self.names, self.lengths = size, discount, names, lengths
        self.fields = [FIELDS[name] for name in names]

    def forward(self, inputs: Values, differentiable: bool) -> Values:
        x: Any = inputs[0]
        with on_device_of(x):
            return self._forward(inputs, differentiable)

    def _forward(self, inputs: Values, differentiable: bool) -> Values:
        x, *parameters = (value if value is None else plain(value) for value in inputs[:7])
        given: list[Any] = [value if value is None else plain(value) for value in inputs[7:]]
        size, weights = self.size, Weights(*parameters)  # type: ignore[arg-type]
        assert x is not None
        steps, batch, _ = x.shape
        tape = DenseTape(size, steps, batch, x)
        ends = ends_of(self.lengths, steps, batch, x.device)
        matrices = packed_at_once(weights, size)
        input_sums(x, weights, size, tape.gates)
        hidden, cell, read, *fields = given
        torch.cat([hidden, read.flatten(1)], dim=1, out=tape.joint[0])
        if cell is not None:
            tape.cells[0] = cell
        for name, value in zip(self.fields, fields):
            getattr(tape, name)[0] = value
        launch = _launch("forward", size, (tape, *matrices, ends, self.discount, batch), batch)
        launch(steps)
        if differentiable:
            self.tape = DenseRun(x, weights, tape, ends)
        at, hidden, cell, read = tape.final(ends, self.lengths is not None)
        after = [getattr(tape, name)[at].clone() for name in self.fields]
        constant = CONSTANT.get(size.MODEL, ())
        self.constants = tuple(value for name, value in zip(self.names, after) if name in constant)
        return Values((tape.joint[1:], hidden, cell, read, *after))

    def backward(self, inputs: Values, gradients: Values, needed: Values) -> Values:
        """The tape stays as it is, so a second pass needs no second run."""
        with on_device_of(self.tape.x):
            return self._backward(self.tape, gradients, needed)

    def _backward(self, run: DenseRun, gradients: Values, needed: Values) -> Values:
        size, x, weights, tape = self.size, run.x, run.weights, run.tape
        batch = x.shape[1]
        d_joint, d_hidden, d_cell, d_read, *d_fields = gradients
        d_joint = torch.zeros_like(tape.joint[1:]) if d_joint is None else aligned_tensor(d_joint)
        carry = torch.zeros(batch, size.J, dtype=torch.float32, device=x.device)
        if d_hidden is not None:
            carry[:, : size.H] = d_hidden
        if d_read is not None:
            carry[:, size.H :] = d_read.flatten(1)
        none = no_tensor(x)
        handed = dict.fromkeys(FIELDS.values(), none)
        for name, value in zip(self.fields, d_fields):
            like = getattr(tape, name)[0]
            handed[name] = torch.zeros_like(like) if value is None else torch.empty_like(like).copy_(value)
        cells = none
        if size.CONTROLLER == "lstm":
            cells = torch.zeros(batch, size.H, dtype=torch.float32, device=x.device)
            if d_cell is not None:
                cells.copy_(d_cell)
        changed = tape.with_gradients()
        arguments = (changed, *packed_backward(weights, size), d_joint, carry, cells, *handed.values(), run.ends, batch)
        _launch("backward", size, arguments, batch)(x.shape[0])
        d_x, d_weights = weight_gradients(x, tape.joint, changed.gates, changed.interface, weights, size)
        constant = CONSTANT.get(size.MODEL, ())
        fields = [None if n in constant else handed[f] for n, f in zip(self.names, self.fields)]
        hidden, read = carry[:, : size.H], carry[:, size.H :].unflatten(-1, (size.R, size.W))
        state = (hidden, cells if size.CONTROLLER == "lstm" else None, read, *fields)
        return Values((d_x if needed[0] else None, *d_weights, *state))


def _launch(name: str, size: DenseLayout, arguments: tuple[Any, ...], batch: int) -> Any:
    """What launches a kernel with the number of steps."""
    from sparsam.engines.cuda.dense.kernels import backward, forward

    kernel = {"forward": forward.dense_forward, "backward": backward.dense_backward}[name]
    constants = constants_of(kernel, size, PRODUCT=PRODUCT * size.WARPS)
    return bound(kernel, (batch,), arguments, constants, size.WARPS)
