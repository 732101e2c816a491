"""Sequences of the dense models as CUDA graphs: captured once for a shape, replayed forward and backward.

A step of NTM, DAM or DNC in plain PyTorch is a hundred small kernels, and the host launches each for longer than it
runs. A graph keeps the launches of many steps.

The first length that comes is captured whole, so that training at one length is one graph. Sequences of all other
lengths are put together from captures of 1 to 7 steps and of 8, 16, 32 and so on: each of them serves once in a
sequence, so a dozen captures, twice as long together as the longest sequence, run them all without any padding.

A capture owns the buffers it computes in, so it serves one forward pass at a time until its backward pass is done;
calls that overlap get captures of their own, up to `MOST_CAPTURES`, and then run without a graph.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import Values
from sparsam.engines.cuda.dense.capturable import Capturable

MOST_CAPTURES = 3  # of one shape, for calls that overlap
MOST_SHAPES = 48  # of one model, the least recently used is given up
SHORT = 8  # steps; fewer are one capture
WARMUP = 2  # steps before a capture, for whatever is set up at its first use
_MODE = "thread_local"  # another thread may be drawing the next minibatch on the device meanwhile

Step = Callable[..., tuple[Tensor, ...]]  # (x_t, *state) -> (y_t, *state)


def plain_sequence(step: Step, x: Tensor, state: tuple[Tensor, ...], ends: Tensor | None) -> tuple[Tensor, ...]:
    """y (T, B, O) and the state after the last step; elements past their end (B,) keep their state and put out 0.

    No step asks the device for a value, so that this can be captured.
    """
    outputs = []
    for t in range(x.shape[0]):
        y, *after = step(x[t], *state)
        if ends is not None:
            active = t < ends
            y = torch.where(active[:, None], y, torch.zeros_like(y))
            after = [torch.where(active.view(-1, *[1] * (new.dim() - 1)), new, old) for new, old in zip(after, state)]
        outputs.append(y)
        state = tuple(after)
    return torch.stack(outputs), *state


def capture_lengths(steps: int) -> list[int]:
    """The lengths of the captures that make up a sequence: powers of two, the longest first, and a short rest."""
    powers = [1 << bit for bit in reversed(range(steps.bit_length())) if steps >> bit & 1]
    rest = steps % SHORT
    return [power for power in powers if power >= SHORT] + [rest] * (rest > 0)


def generator_as_it_is() -> torch.Generator | None:
    """A copy of the device's generator of random numbers: one that a capture failed with draws no more."""
    if not torch.cuda.is_available():
        return None
    return torch.cuda.default_generators[torch.cuda.current_device()].clone_state()


class Sequences:
    """The captured sequences of one step function over one set of parameters."""

    def __init__(
        self, step: Step, parameters: tuple[Tensor, ...], captured: tuple[Step, tuple[Tensor, ...]] | None = None
    ) -> None:
        """`captured`: the step and the parameters that are captured, where they are not these."""
        self.plain, self.parameters = step, parameters
        self.inner, self.leaves = (step, parameters) if captured is None else captured
        self.captures: dict[Hashable, list[Capture]] = {}
        self.whole: dict[Hashable, int] = {}  # the length that came first
        self.moves: list[bool] | None = None  # the fields of the state that the parameters have a gradient from
        self.reason: str | None = None  # why nothing is captured any more

    def __call__(self, x: Tensor, state: tuple[Tensor, ...], ends: Tensor | None = None) -> tuple[Tensor, ...]:
        if self.reason is not None:
            return plain_sequence(self.plain, x, state, ends)
        differentiated = torch.is_grad_enabled() and (
            any(value.requires_grad for value in (x, *state)) or any(p.requires_grad for p in self.parameters)
        )
        steps = x.shape[0]
        wanted = (differentiated and x.requires_grad, *self._wanted(x, state, differentiated))
        key = (differentiated, ends is None, wanted, *((value.shape, value.dtype) for value in (x[0], *state)))
        if self.whole.setdefault(key, steps) == steps:
            return self._piece(key, x, state, ends, differentiated, wanted)
        outputs, begin = [], 0
        for count in capture_lengths(steps):
            left = None if ends is None else ends - begin
            y, *after = self._piece(key, x[begin : begin + count], state, left, differentiated, wanted)
            outputs.append(y)
            state, begin = tuple(after), begin + count
        return torch.cat(outputs), *state

    def _wanted(self, x: Tensor, state: tuple[Tensor, ...], differentiated: bool) -> list[bool]:
        """Of which fields of the state gradients are taken.

        Those that the parameters move have one in every capture, wherever in a sequence it stands, so that it serves
        at all places.
        """
        if not differentiated:
            return [False for _ in state]
        if self.moves is None:
            self.moves = moving_fields(self.inner, x[0].detach(), [value.detach() for value in state])
        return [moves or value.requires_grad for moves, value in zip(self.moves, state)]

    def _piece(
        self,
        key: Hashable,
        x: Tensor,
        state: tuple[Tensor, ...],
        ends: Tensor | None,
        differentiated: bool,
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor, ...]:
        inputs = (x, *state) if ends is None else (x, *state, ends)
        capture = None
        if self.reason is None:
            capture = self._free((x.shape[0], key), inputs, wanted, ends is not None, differentiated)
        if capture is None:
            return plain_sequence(self.plain, x, state, ends)
        outputs: tuple[Tensor, ...] = boundary.run(Replay(capture), Values((*inputs, *self.parameters)))
        return outputs

    def _free(
        self, key: Hashable, inputs: tuple[Tensor, ...], wanted: tuple[bool, ...], padded: bool, differentiated: bool
    ) -> Capture | None:
        """A capture that no pass is using, made when there is none; None when there are too many or it fails."""
        found = self.captures.pop(key, [])
        self.captures[key] = found  # the newest comes last
        for capture in found:
            if not capture.busy:
                return capture
        if len(found) >= MOST_CAPTURES:
            return None
        while len(self.captures) > MOST_SHAPES:
            del self.captures[next(iter(self.captures))]
        generator = generator_as_it_is()
        try:
            found.append(Capture(self.inner, inputs, wanted, padded, self.leaves, differentiated))
            return found[-1]
        except Exception as error:  # whatever refuses to be captured: the plain sequence still runs
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            torch.cuda.synchronize()
            if generator is not None:
                torch.cuda.default_generators[torch.cuda.current_device()].graphsafe_set_state(generator)
        self.reason = reason
        warnings.warn(f"no CUDA graph for this model, its steps run one by one ({reason})", stacklevel=6)
        return None


def moving_fields(step: Step, x: Tensor, state: list[Tensor]) -> list[bool]:
    """Which fields of the state have a gradient after some steps that begin without any."""
    moves = [False for _ in state]
    while True:
        with torch.enable_grad():
            _, *after = step(x, *(value.detach().requires_grad_(moved) for value, moved in zip(state, moves)))
        found = [value.requires_grad for value in after]
        if found == moves:
            return moves
        moves = found


class Capture:
    """A number of steps in buffers of its own."""

    def __init__(
        self,
        step: Step,
        inputs: tuple[Tensor, ...],
        wanted: tuple[bool, ...],
        padded: bool,
        parameters: tuple[Tensor, ...],
        differentiated: bool,
    ) -> None:
        self.busy: weakref.ref[Lease] | bool = False
        self.passes = 0
        self.inputs = [
            torch.empty_like(value, memory_format=torch.contiguous_format).copy_(value.detach()) for value in inputs
        ]
        for value, want in zip(self.inputs, wanted):
            value.requires_grad_(want)
        leaves = [value for value in (*self.inputs, *parameters) if value.requires_grad] if differentiated else []

        def run(steps: int | None = None) -> tuple[Tensor, ...]:
            x, *rest = self.inputs
            ends = rest.pop() if padded else None
            with Capturable():
                return plain_sequence(step, x[:steps], tuple(rest), ends)

        def gradients(outputs: tuple[Tensor, ...], given: list[Tensor]) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(
                [value for value in outputs if value.requires_grad], leaves, given, allow_unused=True
            )

        with torch.set_grad_enabled(differentiated):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                outputs = run(WARMUP)
                if differentiated:
                    gradients(outputs, [torch.zeros_like(value) for value in outputs if value.requires_grad])
            torch.cuda.current_stream().wait_stream(side)
            del outputs
            self.forward_graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.forward_graph, capture_error_mode=_MODE):
                outputs = run()
            self.moving = [value.requires_grad for value in outputs]
            self.outputs = [value.detach() for value in outputs]
            self.given: list[Tensor] = []
            self.found: list[Tensor | None] = []
            if differentiated:
                self.given = [torch.empty_like(value) for value in outputs if value.requires_grad]
                self.backward_graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.backward_graph, self.forward_graph.pool(), capture_error_mode=_MODE):
                    found = list(gradients(outputs, self.given))
                leaf = [value.requires_grad for value in (*self.inputs, *parameters)]
                self.found = [found.pop(0) if is_leaf else None for is_leaf in leaf]

    def lease(self) -> Lease:
        """To be held until the backward pass is done: nobody else may use the buffers meanwhile."""
        lease = Lease(self)
        self.busy = weakref.ref(lease, lambda _: setattr(self, "busy", False))
        return lease

    def forward(self, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        self.passes += 1
        for mine, value in zip(self.inputs, inputs):
            mine.detach().copy_(value.detach())
        self.forward_graph.replay()
        return tuple(value.clone() for value in self.outputs)


class Lease:
    """A forward pass whose backward pass may still come."""

    bytes = None  # the buffers belong to the capture

    def __init__(self, capture: Capture) -> None:
        self.capture, self.number = capture, capture.passes + 1
        self.spent = False

    def backward(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        if self.capture.passes != self.number:
            raise RuntimeError(
                "the buffers of this pass have been used again: a captured sequence runs backward before the model is "
                "called again with these shapes (retain_graph=True does not keep them); use engine='reference'"
            )
        if self.spent:  # the pass before computed in the buffers that the forward pass had filled
            self.capture.forward_graph.replay()
        given = [gradient for gradient, moves in zip(gradients, self.capture.moving) if moves]
        for mine, value in zip(self.capture.given, given):
            mine.zero_() if value is None else mine.copy_(value)
        self.capture.backward_graph.replay()
        self.spent = True
        self.capture.busy = False
        return tuple(None if value is None else value.clone() for value in self.capture.found)


class Replay(boundary.Call):
    engine = "cuda"
    inputs = outputs = Values

    def __init__(self, capture: Capture) -> None:
        self.capture = capture

    def forward(self, inputs: Values, differentiable: bool) -> Values:
        capture = self.capture
        self.tape = capture.lease() if differentiable else None
        outputs = capture.forward(inputs[: len(capture.inputs)])  # the parameters are read where they lie
        self.constants = tuple(value for value, moves in zip(outputs, capture.moving) if not moves)
        return Values(outputs)

    def backward(self, inputs: Values, gradients: Values, needed: Values) -> Values:
        """The tape stays: until the next pass takes the buffers, they can run forward and backward again."""
        return Values(self.tape.backward(gradients))
