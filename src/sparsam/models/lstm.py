"""The LSTM baseline: controller and output layer, no memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparsam.controllers.padded import run_padded
from sparsam.controllers.torch_modules import layers_first, layers_last
from sparsam.engines.plan import Plan
from sparsam.models.composition import MemoryModel
from sparsam.state import State
from sparsam.trace import Access
from sparsam.transfer import blank_past


class LSTMState(State):
    """h and c; there is no memory."""

    start: LSTMState | None = None


class LSTM(MemoryModel[LSTMState]):
    """The LSTM baseline: controller and output layer of the other models, without a memory.

    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   y_t = output(h_t).

    Args:
        engine: "auto" or "reference"; both are `nn.LSTM`, which runs on every device.

    The other arguments are those of `SAM`.
    """

    name = "lstm"
    state_class = LSTMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        batch_first: bool = False,
        engine: str = "auto",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        parts = ("lstm", num_layers, dropout, None, device, dtype)
        super().__init__(input_size, output_size, hidden_size, None, batch_first, engine, *parts)

    def _is_ticket(self, state: Any) -> bool:
        return isinstance(state, Tensor)  # a tuple is nn.LSTM's own (h, c)

    def _checked_state(self, state: Any, batch: int, like: Tensor) -> Any:
        """A state, or (h, c) as `nn.LSTM` takes them, (layers, B, H) each."""
        if isinstance(state, tuple) and len(state) == 2 and all(isinstance(v, Tensor) and v.dim() == 3 for v in state):
            hidden, cell = (layers_last(self.controller, value) for value in state)
            state = LSTMState(hidden, cell, start=self.initial_state(batch).start)
        return super()._checked_state(state, batch, like)

    def run(
        self, plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, LSTMState, Sequence[Access]]:
        """The whole sequence in one call of `nn.LSTM`, the fair way to run a baseline; `run_padded` for lengths."""
        carried = tuple(layers_first(self.controller, value) for value in (state.hidden, state.cell))
        if ends is None:
            hidden, after = self.controller(x, carried)
        else:
            hidden, after = run_padded(self.controller, x, carried, ends)
        y = blank_past(self.answer(hidden), ends)
        hidden, cell = (layers_last(self.controller, value).to(x.dtype) for value in after)  # half under autocast
        return y, state.with_fields(hidden=hidden, cell=cell), []
