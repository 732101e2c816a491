"""The six models behind one contract."""

from __future__ import annotations

from typing import Any

from sparsam import checks
from sparsam.models.base import MemoryModel
from sparsam.models.dam import DAM, DAMState
from sparsam.models.dnc import DNC, DNCState
from sparsam.models.lstm import LSTM, LSTMState
from sparsam.models.ntm import NTM, NTMState
from sparsam.models.sam import SAM, SAMState
from sparsam.models.sdnc import SDNC, SDNCState
from sparsam.models.trace import Trace

MODELS: dict[str, type[MemoryModel]] = {model.name: model for model in (LSTM, NTM, DAM, SAM, DNC, SDNC)}


def build(name: str, **kwargs: Any) -> MemoryModel:
    """Make a model by name, e.g. `sparsam.build("sam", input_size=8, output_size=8)`."""
    return MODELS[checks.one_of("name", name, MODELS)](**kwargs)


__all__ = [
    "DAM",
    "DNC",
    "LSTM",
    "MODELS",
    "NTM",
    "SAM",
    "SDNC",
    "DAMState",
    "DNCState",
    "LSTMState",
    "MemoryModel",
    "NTMState",
    "SAMState",
    "SDNCState",
    "Trace",
    "build",
]
