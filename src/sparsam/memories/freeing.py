"""What the DNC does with the content of words that it frees: keeps it, or erases it (`deallocate=True`)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from sparsam import checks
from sparsam.engines.reference.deallocation import deallocated
from sparsam.memories.part import Part


class Freeing(Part):
    """Only the usage of a word goes down, as in Graves 2016."""

    deallocate: ClassVar[bool] = False

    def words(self, words: Tensor, retention: Tensor) -> Tensor:
        """Words (B, N, W) before the step's own write, of which psi (B, N) is retained."""
        return words


class Deallocation(Freeing):
    """A word that is freed loses its content as well (`sparsam.engines.reference.deallocation`)."""

    deallocate = True
    options: ClassVar = {"deallocate": True}

    def words(self, words: Tensor, retention: Tensor) -> Tensor:
        return deallocated(words, retention)


def freeing(deallocate: bool) -> Freeing:
    """The part that a model's argument `deallocate` asks for."""
    return Deallocation() if checks.boolean("deallocate", deallocate) else Freeing()
