"""The LSTM baseline: the controller and the output layer of the other models, without a memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sparsam.engines.reference.access import Access
from sparsam.engines.reference.controller import lstm_step
from sparsam.models.base import MemoryModel
from sparsam.state import State


@dataclass(frozen=True, eq=False)
class LSTMState(State):
    """h and c; there is no memory."""

    start: LSTMState | None = None


class LSTM(MemoryModel):
    """h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   y_t = output(h_t).

    Args:
        input_size, output_size, hidden_size: I, O and H.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference"; both are `nn.LSTM`, which runs on every device.
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
    ) -> None:
        super().__init__(input_size, output_size, hidden_size, 0, 0, batch_first, engine)

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> LSTMState:
        zeros = self.output.weight.new_zeros(batch_size, self.hidden_size)
        return LSTMState(zeros, zeros, LSTMState(zeros, zeros))

    def reference_step(self, x: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState, list[Access]]:
        """One step, which `reference_sequence` equals."""
        hidden, cell = lstm_step(self.controller, x, state.hidden, state.cell)
        return self.output(hidden), LSTMState(hidden, cell, state.start), []

    def reference_sequence(self, x: Tensor, state: LSTMState, lengths: Tensor | None) -> tuple[Tensor, LSTMState]:
        """The whole sequence in one call of `nn.LSTM`, as a baseline of speed ought to be run."""
        carried = (state.hidden[None].contiguous(), state.cell[None].contiguous())
        if lengths is None:
            hidden, (last, cell) = self.controller(x, carried)
            return self.output(hidden), LSTMState(last[0], cell[0], state.start)
        packed, (last, cell) = self.controller(pack_padded_sequence(x, lengths, enforce_sorted=False), carried)
        hidden, _ = pad_packed_sequence(packed, total_length=x.shape[0])
        past = torch.arange(x.shape[0], device=x.device)[:, None] >= lengths.to(x.device)
        return self.output(hidden).masked_fill(past[..., None], 0.0), LSTMState(last[0], cell[0], state.start)
