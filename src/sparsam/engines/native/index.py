"""Index settings as the core takes them, and starting memories that are copied and indexed once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from sparsam import indexes
from sparsam.engines.native.core import native as _native

# A user's starting memory -> what the core made of it, for as long as the tensor lives.
_known: Any = WeakTensorKeyDictionary()


def core_settings(index: indexes.Index) -> _native.IndexSettings | None:
    """The core's settings of an index; None for exact search."""
    if indexes.is_exact(index):
        return None
    if isinstance(index, indexes.Auto):
        until = index.thresholds
        return _native.IndexSettings(
            index.index.kind, indexes.numbers(index.index), until.scored, until.coded, until.short
        )
    return _native.IndexSettings(index.kind, indexes.numbers(index))


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
    make = _native.Initial32 if initial.dtype == torch.float32 else _native.Initial64
    made = [make(part) for part in parts]
    _known[initial] = made
    return made
