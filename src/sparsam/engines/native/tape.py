"""Room for what a forward pass keeps: one allocation per call, handed on to later calls.

Giving megabytes back to the system after every minibatch and asking for them again would cost a page fault per page.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

MOST_BYTES = 64 * 2**20  # kept between calls, for all models together
LINE = 16  # numbers; every part begins on a cache line

_lock = threading.Lock()
_spare: list[Tensor] = []


class TapeBuffer:
    """A flat, uninitialised tensor from which parts are carved."""

    def __init__(self, numbers: int, parts: int, dtype: torch.dtype) -> None:
        needed = numbers + parts * LINE
        self._flat = _take(needed, dtype)
        self._used = 0

    def carve(self, *shape: int) -> Tensor:
        """The next part, of this shape."""
        size = 1
        for length in shape:
            size *= length
        part = self._flat[self._used : self._used + size].view(shape)
        self._used += (size + LINE - 1) // LINE * LINE
        return part

    def release(self) -> None:
        """Hand the memory on. The parts must not be used any more."""
        with _lock:
            held = sum(tensor.nbytes for tensor in _spare)
            if held + self._flat.nbytes <= MOST_BYTES:
                _spare.append(self._flat)
        self._flat = self._flat[:0]


def _take(numbers: int, dtype: torch.dtype) -> Tensor:
    with _lock:
        fits = [i for i, t in enumerate(_spare) if t.dtype == dtype and numbers <= t.numel() <= 2 * numbers]
        if fits:
            return _spare.pop(min(fits, key=lambda i: _spare[i].numel()))
        if sum(tensor.nbytes for tensor in _spare) > MOST_BYTES // 2:
            _spare.clear()  # sizes have moved on
    return torch.empty(numbers, dtype=dtype)
