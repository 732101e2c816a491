"""Tensors in one piece of memory: kernels get addresses, and a tensor is made when somebody asks for it.

Every tensor costs the host microseconds, which is what short sequences are made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

Places = Mapping[str, tuple[tuple[int, ...], int, bool]]  # shape, first number, and whether it holds whole numbers


class TensorArena:
    """The tensors of `NAMES`, of four bytes a number (two in bfloat16), or attributes of their own."""

    NAMES: ClassVar[tuple[str, ...]]

    def __init__(self, places: Places, arena: Tensor) -> None:
        self.places, self.arena = places, arena

    def __getattr__(self, name: str) -> Tensor:
        places = self.__dict__.get("places", {})
        if name not in places:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        shape, begin, whole = places[name]
        value = self.arena[begin : begin + math.prod(shape)].view(shape)
        value = value.view(torch.int32) if whole else value
        self.__dict__[name] = value
        return value

    def tensors(self) -> list[Tensor]:
        return [getattr(self, name) for name in self.NAMES]

    def addresses(self) -> list[int]:
        """Where the tensors begin, in the same order."""
        begin, bytes_each = self.arena.data_ptr(), self.arena.element_size()
        own = self.__dict__
        return [own[n].data_ptr() if n in own else begin + bytes_each * self.places[n][1] for n in self.NAMES]


def cut(arena: Tensor, places: Places) -> dict[str, Tensor]:
    """The tensors of an arena of int32, one call of torch for each."""
    numbers = arena.view(torch.float32)
    return {
        name: (arena if whole else numbers).as_strided(shape, _strides(shape), begin)
        for name, (shape, begin, whole) in places.items()
    }


@lru_cache(maxsize=256)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))


def placed(shapes: Mapping[str, tuple[tuple[int, ...], bool]]) -> tuple[Places, int]:
    """Places for tensors of these shapes one after the other, and how many numbers that takes; each at 16 bytes."""
    places: dict[str, tuple[tuple[int, ...], int, bool]] = {}
    begin = 0
    for name, (shape, whole) in shapes.items():
        places[name] = (shape, begin, whole)
        begin += -(-math.prod(shape) // 8) * 8
    return places, begin
