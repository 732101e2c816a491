"""Names: how a native memory goes through a compiled or exported graph, which knows tensors alone.

A name is a small float64 tensor whose bits are a number in a table. Its storage owns what it names: whoever keeps the
tensor (a state, a graph that waits for its backward pass) keeps the memory, and when the storage is freed the memory
is. A copy of a name names the same thing for as long as the original lives.

A memory's name is (B, 2), one line for each batch element: the number, and 0. The gradient of such a tensor is a name
too, that of the gradients of the words written: (B, 2) with the number and a 1, so that a sum of two gradients, which
names nothing, is seen. It is float64 so that it can have a gradient; read as a float it is next to 0.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sparsam.engines.native import placeholders


class Owner(np.ndarray):
    """The storage of a name, and what it owns."""

    owned: Any = None


class Table:
    def __init__(self) -> None:
        self.owners: weakref.WeakValueDictionary[int, Owner] = weakref.WeakValueDictionary()
        self.numbers = itertools.count(1)
        self.in_use = False  # from the first compiled call on, eager calls name their memories too

    def __len__(self) -> int:
        return len(self.owners)

    def name(self, owned: Any, lines: int, mark: float) -> Tensor:
        """A new name of `owned`, (lines, 2)."""
        self.in_use = True
        number, numbers = next(self.numbers), np.empty((lines, 2))
        numbers[:, 1] = mark
        numbers[:, :1].view(np.int64)[...] = number
        owner = numbers.view(Owner)
        owner.owned = owned
        self.owners[number] = owner
        return torch.from_numpy(owner)

    def find(self, name: Tensor) -> Any:
        """What a name names; None when that is gone."""
        numbers = name.detach()[:, :1].contiguous().view(torch.int64).flatten()
        number = int(numbers[0])
        owner = self.owners.get(number)
        return None if owner is None or bool((numbers != number).any()) else owner.owned


TABLE = Table()


def memory_name(versions: list[Any], origins: list[Any], placeholder: Tensor | None) -> Tensor:
    """A name for the memories of a batch; gradients flow to their placeholder in the graph of eager calls."""
    if placeholder is None:
        return TABLE.name((versions, origins), len(versions), 0.0)
    with torch.enable_grad():  # it is kept, for calls with gradients too
        return ToName.apply(placeholder, versions, origins)  # type: ignore[no-any-return]


def named_memory(name: Tensor) -> tuple[list[Any], list[Any]]:
    found = TABLE.find(name)
    if not isinstance(found, tuple):
        raise RuntimeError(
            "state: expected a memory that still exists, got one that was freed or changed; keep a compiled call's "
            "state as it was returned, and save it with torch.save"
        )
    return found


class Gradients:
    """Gradients of the memories of a batch: sparse tensors (B, N, W) and, of links, (B, 2N+1, N); None for none."""

    def __init__(self, memory: Tensor | None, links: Tensor | None) -> None:
        self.memory, self.links = memory, links


SMALLEST = float(np.finfo(np.float64).tiny)  # the numbers of names, read as floats, are below it
NO_GRADIENTS = Gradients(None, None)


def gradient_name(memory: Tensor | None, links: Tensor | None, batch: int) -> Tensor:
    return TABLE.name(Gradients(memory, links), batch, 1.0)


def named_gradients(name: Tensor | None) -> Gradients:
    """The gradients that the gradient of a memory's name stands for."""
    if name is None:
        return NO_GRADIENTS
    numbers, marks = name.detach().unbind(1)
    if not bool(marks.any()) or bool((numbers.abs() >= SMALLEST).all()):
        return NO_GRADIENTS  # nothing asks for the memory's; at most for that of the name's own numbers, a constant
    found = TABLE.find(name) if bool((marks == 1).all()) else None
    if not isinstance(found, Gradients):
        raise RuntimeError(
            "state: expected one use of a memory in a compiled graph, got several, whose gradients cannot be summed "
            "there; pass all but one of them state.detach(), or run without torch.compile"
        )
    return found


class ToName(torch.autograd.Function):
    """From the placeholder of a memory in eager calls to its name."""

    @staticmethod
    def forward(ctx: Any, placeholder: Tensor, versions: list[Any], origins: list[Any]) -> Tensor:
        return TABLE.name((versions, origins), len(versions), 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        found = named_gradients(gradient)
        if found.links is not None:
            raise RuntimeError("state: expected link_gradients=False where an eager call's state goes into a compiled "
                               "one, or state.detach()")  # fmt: skip
        return found.memory, None, None


class FromName(torch.autograd.Function):
    """From a name to the placeholder of its memory in eager calls."""

    @staticmethod
    def forward(ctx: Any, name: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        return placeholders.zero(dtype).expand(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        sparse = gradient if gradient.is_sparse else gradient.to_sparse(2)
        return gradient_name(sparse, None, gradient.shape[0]), None, None
