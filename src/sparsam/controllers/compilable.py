"""`nn.LSTM` and `nn.GRU` as classes that `torch.compile` takes: it refuses to look at modules of those two types.

Parameters, settings and methods are torch's own, so weights and code of the one serve the other.
"""

from __future__ import annotations

from typing import Any

from torch import nn


class LSTMController(nn.RNNBase):
    """`nn.LSTM` in all but its type."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]
    permute_hidden = nn.LSTM.permute_hidden  # type: ignore[assignment]
    forward = nn.LSTM.forward


class GRUController(nn.RNNBase):
    """`nn.GRU` in all but its type."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    forward = nn.GRU.forward
