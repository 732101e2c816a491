"""A model is a controller, an interface to a memory, and an output layer (section 3.3 of the paper).

    h_t = controller([x_t, r_{t-1}]);   interface(h_t) drives the memory;   y_t = output([h_t, r_t]).

The controllers are in `sparsam.controllers`, the memories in `sparsam.memories`, the engines in `sparsam.engines`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sparsam import checks, controllers, engines
from sparsam.memories.memory import Memory
from sparsam.recurrent import Recurrent
from sparsam.state import State
from sparsam.trace import Access
from sparsam.transfer import sent

MODELS: dict[str, type[MemoryModel]] = {}  # by name, filled where a model is defined
MOST_OUTPUT = 2**16  # weights of an output layer that an engine may run step by step; a larger one is one product


def build(name: str, **kwargs: Any) -> MemoryModel:
    """Make a model by name, e.g. `sparsam.build("sam", input_size=8, output_size=8)`."""
    return MODELS[checks.one_of("name", name, MODELS)](**kwargs)


class MemoryModel(Recurrent):
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
    ) -> None:
        super().__init__(batch_first, engine)
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
        self.hidden_size = self.controller_kind.output_size(self.controller, hidden_size)
        if memory is not None:
            self.interface = nn.Linear(self.hidden_size, memory.interface.size, **made)
        if output is None:
            self.output: nn.Module = nn.Linear(self.hidden_size + self.read_size, output_size, **made)
        else:
            self.output = output(self.hidden_size, self.read_size, output_size, **made)

    @property
    def controller_kind(self) -> controllers.ControllerKind:
        return controllers.kind_of(self.controller)

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        return self.controller_kind.fields(self.controller, batch, like)

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.controller_kind.shapes(self.controller)

    def why_not_fused(self, engine: engines.Engine) -> str | None:
        if type(self).control is not MemoryModel.control or "control" in self.__dict__:
            return f"{type(self).__name__} has a control() of its own"
        controller = self.controller
        kind = controllers.kind_of(controller)
        reason = kind.why_not_fused(controller) or engines.untouched_linear("interface", self.interface)
        if reason is None and kind.cell not in engine.fuses:
            return f"it has no cell for a controller of kind {kind.name!r}"
        return reason

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        """h_t (B, H) of the controller, whose input is [x_t, r_{t-1}], and the state's fields that it changes."""
        controller, read = self.controller, state.read.flatten(1)
        inputs = torch.cat([x, read if read.dtype == x.dtype else read.to(x.dtype)], dim=-1)
        return controllers.kind_of(controller).step(controller, inputs, state)

    def answer(self, joint: Tensor) -> Tensor:
        """y (T, B, O) = output([h_t, r_t]) for all steps at once, [h_t, r_t] (T, B, H + R·W)."""
        return self.output(joint)

    def linear_output(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Weight and bias of the output layer where an engine may use them for inputs x (T, B, I).

        None where it has to be called: it is no plain linear map of a moderate size, `answer` is the user's own, or
        it runs in another type than the rest (autocast, parameters of half precision).
        """
        output = self.output
        if type(self).answer is not MemoryModel.answer or "answer" in self.__dict__:
            return None
        if engines.untouched_linear("output", output) is not None or x.dtype not in (torch.float32, torch.float64):
            return None
        weight, bias = engines.linear_parameters(output)
        if weight.numel() > MOST_OUTPUT or torch.is_autocast_enabled(x.device.type):
            return None
        return weight, bias

    def run(self, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> tuple[Tensor, State, Sequence[Access]]:
        y, answered, after, accesses = engines.run(self, x, state, ends, record)
        if not answered:
            y = self.answer(y)
            if ends is not None:
                past = torch.arange(x.shape[0], device="cpu")[:, None] >= ends
                y = y.masked_fill(sent(past[..., None], y.device), 0.0)
        return y, after, accesses

    def options_in_use(self) -> list[str]:
        """The options of later work that this model was made with, as they would be written in its constructor."""
        used = {} if self.memory is None else self.memory.options()
        used |= self.controller_kind.options | getattr(self.output, "options", {})
        return [f"{name}={value}" for name, value in used.items()]

    def extra_repr(self) -> str:
        shown = [] if self.memory is None else [f"{name}={value!r}" for name, value in self.memory.settings().items()]
        shown += [*self.options_in_use(), f"batch_first={self.batch_first}", f"engine={self.engine!r}"]
        if self.engine == "auto":
            shown.append(f"engine_used={self.engine_used!r}")
        return ", ".join(shown)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for old, new in self.controller_kind.renamed.items():
            for key in [key for key in state_dict if key.startswith(prefix + old)]:
                state_dict[prefix + new + key.removeprefix(prefix + old)] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)
