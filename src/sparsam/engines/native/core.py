"""The compiled core, or the reason why it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sparsam.engines.native import openmp

__all__ = ["missing", "native", "takes_tensors"]

missing: str | None = None
takes_tensors = False  # else NumPy arrays over the same numbers

if TYPE_CHECKING:  # as it is where it is there; `missing` says whether
    from sparsam import _native as native

try:
    from sparsam import _native as native
except ImportError as error:  # the extension was not built, for instance when running from a source tree
    native, missing = None, str(error)  # type: ignore[assignment]
else:
    _runtime = openmp.loaded_runtime()
    if _runtime is not None:
        native.use_openmp_runtime(_runtime)
    _exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # from PyTorch 2.10 on
    takes_tensors = _exchange is not None and native.use_tensors(torch.Tensor, _exchange)
