"""A model is a controller, an interface to a memory, and an output layer (section 3.3 of the paper).

    h_t = controller([x_t, r_{t-1}]);   interface(h_t) drives the memory;   y_t = output([h_t, r_t]).

The controllers are in `sparsam.controllers`, the memories in `sparsam.memories`, the engines in `sparsam.engines`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sparsam import checks, controllers
from sparsam import start as starts
from sparsam.controllers.kind import why_changed_linear
from sparsam.engines.clipping import BackwardClip
from sparsam.engines.engine import Controller
from sparsam.engines.feedforward import FEEDFORWARD
from sparsam.engines.plan import Parts, Plan
from sparsam.memories.memory import Memory
from sparsam.models.contract import Recurrent, S
from sparsam.start import Start
from sparsam.state import State, blended
from sparsam.trace import Access
from sparsam.transfer import blank_past, sent
from sparsam.transforms import autocasts, has_numbers

MODELS: dict[str, type[MemoryModel[Any]]] = {}  # by name, filled where a model is defined
MOST_OUTPUT = 2**16  # weights of an output layer that an engine may run step by step; a larger one is one product


def build(name: str, **kwargs: Any) -> MemoryModel:
    """Make a model by name, e.g. `sparsam.build("sam", input_size=8, output_size=8)`."""
    return MODELS[checks.one_of("name", name, MODELS)](**kwargs)


class MemoryModel(Recurrent[S]):
    """Controller, interface and output layer around a memory, or around none.

    `controller`, `interface` and `output` are modules that may be replaced, hooked or parametrized: what cannot run
    inside a fast engine's loop is called, and the memory still runs in the engine. The argument `output` makes another
    output layer than a linear map; it is called with H, R·W and O, and with device and dtype.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            MODELS[cls.name] = cls

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int,
        memory: Memory | None,
        batch_first: bool,
        engine: str,
        controller: Any = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        output: Callable[..., nn.Module] | None = None,
        device: Any = None,
        dtype: Any = None,
        start: str | Start = "open",
        backward_clip: float | None = None,
    ) -> None:
        super().__init__(batch_first, engine)
        self.backward_clip = backward_clip
        self.input_size = checks.positive_int("input_size", input_size)
        self.output_size = checks.positive_int("output_size", output_size)
        checks.positive_int("hidden_size", hidden_size)
        checks.positive_int("num_layers", num_layers)
        checks.number_in("dropout", dropout, 0.0, 1.0)
        checks.floating_dtype("dtype", dtype)
        self.memory = memory
        self.read_size = 0 if memory is None else memory.read_size
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        inputs = input_size + self.read_size
        self.controller = controllers.make(controller, inputs, hidden_size, num_layers, dropout, **made)
        self._hidden_size = hidden_size
        if memory is not None:
            self.interface = nn.Linear(self.hidden_size, memory.interface.size, **made)
        if output is None:
            self.output: nn.Module = nn.Linear(self.hidden_size + self.read_size, output_size, **made)
        else:
            self.output = output(self.hidden_size, self.read_size, output_size, **made)
        if memory is not None:
            memory.warn_if_small()
            self._began = starts.checked(start)
            begin = starts.numbers(start)
            begin.move_interface(self.interface, memory.interface)
            if not isinstance(controller, nn.Module):
                self.controller_kind.begin(self.controller, begin)

    @property
    def backward_clip(self) -> float | None:
        """The limit on what flows backward from step to step (`sparsam.engines.clipping`); None for exact gradients."""
        return self._backward_clip

    @backward_clip.setter
    def backward_clip(self, value: float | None) -> None:
        if value is not None and checks.number_in("backward_clip", value, 0.0, 1e30) == 0:
            raise ValueError("backward_clip: expected None or a number above 0, got 0")
        self._backward_clip = None if value is None else float(value)

    @property
    def hidden_size(self) -> int:
        """H, the width of the controller."""
        return self.controller_kind.output_size(self.controller, self._hidden_size)

    # as nn.LSTM has them, for those who ask
    @property
    def num_layers(self) -> int:
        return int(getattr(self.controller, "num_layers", 1))

    @property
    def dropout(self) -> float:
        found: Any = getattr(self.controller, "dropout", 0.0)
        return float(getattr(found, "p", found))

    @property
    def bias(self) -> bool:
        found: Any = getattr(self.controller, "bias", True)  # of an nn.Linear it is a parameter
        return found if isinstance(found, bool) else found is not None

    @property
    def controller_kind(self) -> controllers.ControllerKind:
        return controllers.kind_of(self.controller)

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.controller_kind.shapes(self.controller)

    def carried(self) -> dict[str, Callable[[int], Any]]:
        return self.controller_kind.carries(self.controller)

    def parts(self) -> Parts:
        kind = self.controller_kind
        return Parts(kind.fused, self._why_called(kind), self._why_answered(), self.backward_clip is not None)

    def _resolved(self, like: Tensor) -> Plan:
        plan = super()._resolved(like)
        if plan.fused:
            kind = self.controller_kind
            layers = (self.interface, self.output) if plan.answers else (self.interface,)
            linear = tuple((layer, name) for layer in layers for name in ("weight", "bias"))
            plan.controller, plan.weights = str(kind.fused), (*kind.places(self.controller), *linear)
            plan.hidden = self.hidden_size
        return plan

    def _why_called(self, kind: controllers.ControllerKind) -> str | None:
        """Why controller and interface are called at each step; None where an engine may use their weights."""
        if type(self).control is not MemoryModel.control or "control" in self.__dict__:
            return f"{type(self).__name__} has a control() of its own"
        return kind.why_not_fused(self.controller) or why_changed_linear("interface", self.interface)

    def _why_answered(self) -> str | None:
        """Why the output layer is called; None where an engine may use its weights.

        It is no plain linear map of a moderate size, `answer` is the user's own, or it runs in another type than the
        rest (autocast, parameters of half precision).
        """
        if type(self).answer is not MemoryModel.answer or "answer" in self.__dict__:
            return f"{type(self).__name__} has an answer() of its own"
        reason = why_changed_linear("output", self.output)
        if reason is not None:
            return reason
        weight: Any = self.output.weight
        if weight.numel() > MOST_OUTPUT:
            return f"output has {weight.numel():,} weights"
        if weight.dtype not in (torch.float32, torch.float64) or autocasts(weight):
            return "it runs in half precision"
        return None

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        """h_t (B, H) of the controller, whose input is [x_t, r_{t-1}], and the state's fields that it changes."""
        controller, read = self.controller, state.read.flatten(1)
        inputs = torch.cat([x, read if read.dtype == x.dtype else read.to(x.dtype)], dim=-1)
        return controllers.kind_of(controller).step(controller, inputs, state)

    def answer(self, joint: Tensor) -> Tensor:
        """y (T, B, O) = output([h_t, r_t]) for all steps at once, [h_t, r_t] (T, B, H + R·W)."""
        return self.output(joint)

    def run(
        self, plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, State, Sequence[Access]]:
        # One step of a feed-forward controller: the two gates that an engine would add cost more than they save.
        if plan.fused and not (plan.controller == FEEDFORWARD and x.shape[0] == 1):
            weights = self._weights(plan)
            ran = plan.engine.sequence(plan.memory, weights, x, state, ends, record)
            y, after, accesses = ran.joint, state.with_fields(**ran.fields), ran.accesses
            if weights.output is not None:
                return y, after, accesses
        else:
            y, after, accesses = run_stepwise(self, plan, x, state, ends, record)
        return blank_past(self.answer(y), ends), after, accesses

    def _weights(self, plan: Plan) -> Controller:
        """The weights that the engine reads, as they are now; those of a parametrized layer are computed."""
        found = []
        for module, name in plan.weights:
            value = module._parameters.get(name)
            found.append(getattr(module, name) if value is None else value)
        at = len(found) - (4 if plan.answers else 2)
        output = (found[at + 2], found[at + 3]) if plan.answers else None
        interface = (found[at], found[at + 1])
        return Controller(plan.controller, plan.hidden, tuple(found[:at]), interface, output, self._backward_clip)

    def options_in_use(self) -> list[str]:
        used = {} if self.backward_clip is None else {"backward_clip": self.backward_clip}
        used |= self.controller_kind.options | getattr(self.output, "options", {})
        return [*super().options_in_use(), *(f"{name}={value}" for name, value in used.items())]


def setting(path: str) -> Any:
    """A setting of the memory as an attribute of its model, read-only: the parameters depend on it."""
    return property(operator.attrgetter(path), doc=f"`{path}`, which cannot be changed after construction.")


def sparse_setting(field: str, resolve: Callable[[Any], Any] = lambda value: value) -> Any:
    """A field of a sparse memory's description that can be set, which makes a new description."""

    def change(model: Any, value: Any) -> None:
        model.memory = model.memory.with_sizes(dataclasses.replace(model.memory.sizes, **{field: resolve(value)}))

    return property(operator.attrgetter(f"memory.sizes.{field}"), change, doc=f"`{field}` of the memory's description.")


def run_stepwise(
    model: MemoryModel[Any], plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> tuple[Tensor, State, list[Access]]:
    """Step through x (T, B, I); elements past their length keep their state, and their [h, r] is 0.

    This is the path of the reference engine, and of the fast ones where the controller is the user's own or was
    changed: the memory still runs in the engine, with its journal and rollback, at a cost that does not depend on N.
    """
    hiddens, reads, accesses = [], [], []
    held = None if state.hidden is None else state.hidden.dtype
    state = carried_in(state, x.dtype)
    clip = None
    if model.backward_clip is not None and torch.is_grad_enabled():
        if torch.compiler.is_compiling():
            raise RuntimeError("backward_clip: expected None in a compiled call that runs step by step")
        clip = BackwardClip(model.backward_clip, x.shape[0])
    for t, x_t in enumerate(x.unbind(0)):
        active = None if ends is None else t < ends
        if active is not None and has_numbers(active) and bool(active.all()):
            active = None
        hidden, carried = model.control(x_t, state if clip is None else clip.carried(state, t))
        ran = plan.engine.step(plan.memory, model.interface(hidden), state, active, record)
        if active is not None:
            here = sent(active, x.device)
            kept = {name: blended(here, value, getattr(state, name)) for name, value in carried.items()}
            carried, hidden = kept, torch.where(here[:, None], hidden, 0.0)
        hiddens.append(hidden)
        reads.append(ran.joint)
        state = state.with_fields(**carried, **ran.fields)
        accesses += [access.later(t) for access in ran.accesses]
    joint = torch.cat([torch.stack(hiddens), torch.stack(reads).flatten(2)], dim=-1)
    if clip is not None:
        joint, state = clip.given_out(joint, state)
    return joint, carried_in(state, held), accesses


def carried_in(state: Any, dtype: torch.dtype | None) -> Any:
    """The state with the controller's part in `dtype`: it runs in its parameters' type, states may hold more."""
    found = {name: getattr(state, name) for name in ("hidden", "cell")}
    other = {name: value.to(dtype) for name, value in found.items() if value is not None and value.dtype != dtype}
    return state.with_fields(**other) if other else state
