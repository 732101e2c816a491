"""How a memory compares keys with words: whole, or by the part of them that a mask lets through (`masked=True`)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from sparsam import checks
from sparsam.engines.reference.masking import masked_content_weights, masked_words
from sparsam.memories.fused.cosine import dense_content_weights
from sparsam.memories.interface import Field
from sparsam.memories.part import Part


class Addressing(Part):
    """Whole keys with whole words, as in the paper."""

    masked: ClassVar[bool] = False

    def key(self, key: Tensor, request: dict[str, Tensor]) -> Tensor:
        """Keys (B, R, W) as they are compared."""
        return key

    def words(self, words: Tensor, request: dict[str, Tensor]) -> Tensor:
        """Words (B, N, W), or (B, R, K, W) chosen per head, as they are compared."""
        return words

    def dense_weights(
        self, key: Tensor, strength: Tensor, words: Tensor, request: dict[str, Tensor], heads: slice
    ) -> Tensor:
        """C(M, k, beta) of Graves 2016 by cosine, (B, R, N); these are the keys `heads` of all in the request."""
        return dense_content_weights("cosine", key, strength, words)


class MaskedAddressing(Addressing):
    """Every key comes with a mask in (0, 1)^W (`sparsam.engines.reference.masking`)."""

    masked = True
    options: ClassVar = {"masked": True}

    def fields(self, heads: int, width: int) -> tuple[Field, ...]:
        return (Field("masks", (heads, width), "sigmoid"),)  # m

    def key(self, key: Tensor, request: dict[str, Tensor]) -> Tensor:
        return key * request["masks"]

    def words(self, words: Tensor, request: dict[str, Tensor]) -> Tensor:
        return masked_words(words, request["masks"])

    def dense_weights(
        self, key: Tensor, strength: Tensor, words: Tensor, request: dict[str, Tensor], heads: slice
    ) -> Tensor:
        return masked_content_weights(key, strength, request["masks"][:, heads], words)


def addressing(masked: bool) -> Addressing:
    """The part that a model's argument `masked` asks for."""
    return MaskedAddressing() if checks.boolean("masked", masked) else Addressing()
