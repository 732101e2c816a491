"""The six models behind one contract, the calling convention of `nn.LSTM`."""

from __future__ import annotations

# In the order of the paper, in which a registry lists them.
# isort: off
from sparsam.models.composition import MODELS, MemoryModel, build
from sparsam.models.lstm import LSTM, LSTMState
from sparsam.models.sam import SAM
from sparsam.models.sdnc import SDNC
from sparsam.models.dam import DAM
from sparsam.models.ntm import NTM
from sparsam.models.dnc import DNC
# isort: on

__all__ = ["DAM", "DNC", "LSTM", "MODELS", "NTM", "SAM", "SDNC", "LSTMState", "MemoryModel", "build"]
