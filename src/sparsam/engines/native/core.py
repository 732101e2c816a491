"""The compiled core, or why it is not there, and tensors, index settings and starting memories as it takes them."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from sparsam import indexes

__all__ = ["array", "core_settings", "initial_words", "missing", "native", "takes_tensors", "tensor"]

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


# A user's starting memory -> what the core made of it, for as long as the tensor lives.
_known: Any = WeakTensorKeyDictionary()


def core_settings(index: indexes.Index) -> native.IndexSettings | None:
    """The core's settings of an index; None for exact search."""
    if indexes.is_exact(index):
        return None
    if isinstance(index, indexes.Auto):
        until = index.thresholds
        return native.IndexSettings(index.index.kind, asdict(index.index), *until)
    return native.IndexSettings(index.kind, asdict(index))


def initial_words(initial: Tensor) -> list[Any]:
    """M_0, (N, W) or (B, N, W), as the core holds it: one object for each memory.

    The same tensor gives the same objects, so that its copy and its indexes are made once, as long as it holds the
    same numbers: they are compared, because a tensor can be written past its version counter.
    """
    words = initial.detach().contiguous().numpy()
    parts = [words] if words.ndim == 2 else list(words)
    known: list[Any] | None = _known.get(initial)
    if known is not None and len(known) == len(parts) and all(k.equals(p) for k, p in zip(known, parts)):
        return known
    make = native.Initial32 if initial.dtype == torch.float32 else native.Initial64
    made = [make(part) for part in parts]
    _known[initial] = made
    return made
