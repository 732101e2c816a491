"""The compiled core, or the reason why it is not there, and tensors as it takes and gives them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

__all__ = ["array", "missing", "native", "takes_tensors", "tensor"]

OPENMP = re.compile(r"/(libgomp|libomp|libiomp5)[^/]*\.so[^/]*$")

missing: str | None = None
takes_tensors = False  # else NumPy arrays over the same numbers

if TYPE_CHECKING:  # as it is where it is there; `missing` says whether
    from sparsam import _native as native


def loaded_runtime(maps: str = "/proc/self/maps") -> str | None:
    """Path of the OpenMP runtime that torch has loaded into this process; None where it cannot be told.

    The native engine shares its threads: a second pool would fight torch's workers, which spin for a while after each
    parallel region.
    """
    if not os.path.exists(maps):
        return None
    with open(maps, encoding="utf-8") as lines:
        for line in lines:
            path = line.split(maxsplit=5)[-1].strip()
            if OPENMP.search(path):
                return path
    return None


try:
    from sparsam import _native as native
except ImportError as error:  # the extension was not built, for instance when running from a source tree
    native, missing = None, str(error)  # type: ignore[assignment]
else:
    _runtime = loaded_runtime()
    if _runtime is not None:
        native.use_openmp_runtime(_runtime)
    _exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # from PyTorch 2.10 on
    takes_tensors = _exchange is not None and native.use_tensors(torch.Tensor, _exchange)


def array(tensor: Tensor | None) -> Any:
    """A tensor as the core takes it: as it is, or as a NumPy array over the same memory; None for None."""
    if tensor is None:
        return None
    if not takes_tensors:
        return tensor.detach().contiguous().numpy()
    return tensor if tensor.is_contiguous() and not tensor.is_neg() else tensor.detach().resolve_neg().contiguous()


def tensor(array: Any) -> Any:
    """Numbers of the core as a tensor over the same memory; None for None."""
    return array if array is None or isinstance(array, Tensor) else torch.from_numpy(array)
