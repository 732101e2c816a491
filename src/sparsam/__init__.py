"""sparsam: neural networks with huge external memories, for PyTorch.

y, state = sparsam.SAM(input_size=8, output_size=8, memory_size=1_000_000)(x)
"""

from __future__ import annotations

import gc

_collects = gc.isenabled()
gc.disable()  # importing creates no garbage, and a collection over torch's objects is slow
try:
    from sparsam import pytrees as pytrees
    from sparsam.diagnose import diagnose
    from sparsam.indexes import LSH, Auto, KDForest, Linear, Scan
    from sparsam.layer import SparseMemory
    from sparsam.models import DAM, DNC, LSTM, NTM, SAM, SDNC, build
    from sparsam.start import Start
    from sparsam.state import cat
    from sparsam.weights import load
finally:
    if _collects:
        gc.enable()

__version__ = "0.1.0"
__all__ = ["DAM", "DNC", "LSH", "LSTM", "NTM", "SAM", "SDNC", "Auto", "KDForest", "Linear", "Scan", "SparseMemory"]
__all__ += ["Start", "build", "cat", "diagnose", "load"]
