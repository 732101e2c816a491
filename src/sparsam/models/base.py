"""What all six models share: parameters of the controller, the calling convention of `nn.LSTM`, and the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sparsam import checks, engines
from sparsam.engines.reference.access import Access, DenseAccess
from sparsam.engines.reference.bypass import output_input
from sparsam.engines.reference.controller import lstm_step
from sparsam.engines.reference.layer_norm import ControllerNorm, normalised_lstm_step
from sparsam.models.trace import Trace
from sparsam.state import State

ENGINES = ("auto", "reference", "native", "cuda")
OPTIONS = ("masked", "deallocate", "layer_norm", "bypass_dropout")  # off by default; not every engine has them


class MemoryModel(nn.Module):
    """A recurrent model: controller LSTM, an interface to a memory, an output layer (section 3.3 of the paper).

    h_t, c_t = LSTM([x_t, r_{t-1}], h_{t-1}, c_{t-1});   interface(h_t) drives the memory;   y_t = output([h_t, r_t]).

    Subclasses give `reference_step` (one step in plain PyTorch) and `reference_state` (what it starts from).
    """

    name: ClassVar[str]
    state_class: ClassVar[type[State]]

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int,
        read_size: int,
        interface_size: int,
        batch_first: bool,
        engine: str,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_size = checks.positive_int("input_size", input_size)
        self.output_size = checks.positive_int("output_size", output_size)
        self.hidden_size = checks.positive_int("hidden_size", hidden_size)
        self.read_size = read_size
        self.batch_first = bool(batch_first)
        self.engine = checks.one_of("engine", engine, ENGINES)
        self.layer_norm = bool(layer_norm)
        self.bypass_dropout = checks.number_in("bypass_dropout", bypass_dropout, 0.0, 1.0)
        self.controller = nn.LSTM(input_size + read_size, hidden_size)
        if self.layer_norm:
            self.controller_norm = ControllerNorm(hidden_size)
        if interface_size:
            self.interface = nn.Linear(hidden_size, interface_size)
        self.output = nn.Linear(hidden_size + read_size, output_size)

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> State:
        """What a sequence starts from in the reference engine."""
        raise NotImplementedError

    def reference_step(self, x: Tensor, state: Any) -> tuple[Tensor, Any, Sequence[Access | DenseAccess]]:
        """One step in plain PyTorch: x_t (B, I) and a state give y_t (B, O), the next state and what was accessed."""
        raise NotImplementedError

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """h_t, c_t of the controller, whose input is [x_t, r_{t-1}]."""
        inputs = torch.cat([x, state.read.flatten(1)], dim=-1)
        if self.layer_norm:
            return normalised_lstm_step(self.controller, self.controller_norm, inputs, state.hidden, state.cell)
        return lstm_step(self.controller, inputs, state.hidden, state.cell)

    def answer(self, hidden: Tensor, read: Tensor) -> Tensor:
        """y_t = output([h_t, r_t]), r_t (B, R, W)."""
        return self.output(output_input(hidden, read, self.bypass_dropout, self.training))

    def options_in_use(self, besides: Sequence[str] = ()) -> list[str]:
        """The options of later work that this model was made with, as they would be written in its constructor."""
        values = {name: getattr(self, name, False) for name in OPTIONS if name not in besides}
        return [f"{name}={value}" for name, value in values.items() if value]

    def reference_sequence(self, x: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any] | None:
        """A whole sequence at once, for a model that can do without a loop over time; None when it cannot."""
        return None

    def initial_state(self, batch_size: int, initial_memory: Tensor | None = None) -> State:
        """What `model(x)` starts from: h, c and r zero, the memory blank or `initial_memory` (N, W) or (B, N, W)."""
        checks.positive_int("batch_size", batch_size)
        if initial_memory is not None:
            rows, width = getattr(self, "memory_size", None), getattr(self, "word_size", None)
            if rows is None or width is None:
                raise ValueError(f"initial_memory: {type(self).__name__} has no memory, expected None")
            checks.initial_memory(initial_memory, batch_size, rows, width, self.output.weight)
        return engines.select(self).initial_state(self, batch_size, initial_memory)

    def forward(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """Run a sequence x (T, B, I), or (B, T, I) with `batch_first`; returns the outputs and the final state.

        `state` goes on where another call ended. `lengths` (B,) marks padded batches: the steps past an element's
        length change nothing and their outputs are 0.
        """
        y, state, _ = self._run(x, state, lengths, record=False)
        return y, state

    def trace(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> Trace:
        """Run a sequence and record which rows each head read and wrote when (see `Trace`)."""
        _, _, accesses = self._run(x, state, lengths, record=True)
        return Trace.of(accesses)

    def _run(
        self, x: Tensor, state: State | None, lengths: Tensor | None, record: bool
    ) -> tuple[Tensor, State, list[Access]]:
        x = checks.sequence(x, self.input_size, self.batch_first, self.output.weight)
        steps, batch, _ = x.shape
        if lengths is not None:
            lengths = checks.sequence_lengths(lengths, steps, batch)
            past = torch.arange(steps)[:, None] >= lengths
            x = x.masked_fill(past[..., None].to(x.device), 0.0)  # padding, NaN too, must not reach a gradient
        if state is None:
            state = self.initial_state(batch)
        self._check_state(state, batch)
        y, after, accesses = engines.select(self).run(self, x, state, lengths, record)
        return y.transpose(0, 1) if self.batch_first else y, after, accesses

    def _check_state(self, state: Any, batch: int) -> None:
        if type(state) is not self.state_class:
            raise TypeError(
                f"state: expected a {self.state_class.__name__} of a {type(self).__name__}, got {type(state).__name__}"
            )
        if state.batch_size != batch:
            raise ValueError(f"state: expected batch size B = {batch} as in x, got {state.batch_size}")
        checks.like_parameter("state", state.hidden, self.output.weight)
        expected = self.state_shapes()
        for name, value in state.values():
            want = expected.get(name)
            if want is not None and hasattr(value, "shape") and tuple(value.shape[1:]) != want:
                raise ValueError(
                    f"state: expected {name} of shape (B, {', '.join(map(str, want))}), got {tuple(value.shape)}"
                )

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each field of a state that has one, without its batch dimension."""
        return {"hidden": (self.hidden_size,), "cell": (self.hidden_size,)}

    def extra_repr(self) -> str:
        return ", ".join([*self.options_in_use(), f"batch_first={self.batch_first}", f"engine={self.engine!r}"])
