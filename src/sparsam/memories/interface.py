"""The interface vector (p_t of section 3.3): what a controller requests of a memory, declared once as named fields.

Every engine takes offsets and activations from such a declaration: the reference through `split`, the native core
through its own copy of the order (csrc, compared with this one by a test), the GPU kernels through their layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def one_plus(x: Tensor) -> Tensor:
    return 1 + F.softplus(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "one_plus": one_plus,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, dim=-1),  # over the field's last dimension
}


# What a field is for, where first weights depend on it.
ROLES = {
    "query": "what words are looked up by",
    "word": "what is written",
    "sharpness": "strength of a lookup",
    "write": "gate of a write",
    "reuse": "gate that writes to the words just read rather than to unused ones",
    "allocate": "gate that writes to unused words rather than to those looked up",
    "lookup": "gate or mode that reads words by what they hold rather than by where they are",
    "place": "gate that writes to words looked up rather than beside the last write",
    "next": "shift of a write by one row",
}


@dataclass(frozen=True)
class Field:
    """A named part of the interface vector."""

    name: str
    shape: tuple[int, ...]  # of one batch element, heads first
    activation: str = "identity"
    role: str = ""  # which number of `sparsam.Start` moves its first weights, see ROLES; none moves the others
    parts: tuple[tuple[str, int, int, int], ...] = ()  # numbers with a further role: role, first, end and step

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Interface:
    """Fields one after the other."""

    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """F, the numbers of an interface vector."""
        return sum(field.size for field in self.fields)

    def offsets(self) -> dict[str, int]:
        """Where each field begins."""
        found, at = {}, 0
        for field in self.fields:
            found[field.name] = at
            at += field.size
        return found

    def roles(self) -> dict[str, list[slice]]:
        """The numbers of the vector that have a role, by role."""
        found: dict[str, list[slice]] = {}
        for field, at in zip(self.fields, self.offsets().values()):
            found.setdefault(field.role, []).append(slice(at, at + field.size))
            for role, first, end, step in field.parts:
                found.setdefault(role, []).append(slice(at + first, at + end, step))
        return found

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """The activated fields, (B, *shape) each, of an interface vector (B, F)."""
        parts = vector.split([field.size for field in self.fields], dim=-1)
        return {
            field.name: ACTIVATIONS[field.activation](part.reshape(vector.shape[0], *field.shape))
            for field, part in zip(self.fields, parts)
        }


def sparse_interface(
    heads: int, width: int, links: bool = False, free_gates: bool = False, erase: bool = False
) -> Interface:
    """SAM's and DAM's fields: q, a, beta, alpha, gamma; then with links read modes, free gates, and erase gates."""
    fields = [
        Field("query", (heads, width), role="query"),  # q
        Field("write_word", (heads, width), role="word"),  # a
        Field("strength", (heads,), "one_plus", "sharpness"),  # beta
        Field("write_gate", (heads,), "sigmoid", "write"),  # alpha
        Field("interpolation", (heads,), "sigmoid", "reuse"),  # gamma
    ]
    if links:
        modes = (("lookup", 1, 3 * heads, 3),)
        fields.append(Field("read_modes", (heads, 3), "softmax", parts=modes))  # pi: backward, content, forward
    if free_gates:
        fields.append(Field("free_gates", (heads,), "sigmoid"))  # f
    if erase:
        fields.append(Field("erase", (heads,), "sigmoid"))  # e
    return Interface(tuple(fields))
