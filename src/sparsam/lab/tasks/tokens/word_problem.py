"""Word problems of the groups S5 and A5 (Merrill et al. 2024): state tracking at its hardest.

A token is an element of the group, a permutation of five things: 120 of them in S5, 60 even ones in A5. The answer at
every step is the product of all tokens so far,

    y_1 = x_1,   y_t = y_(t-1) x_t,   (a b)(i) = a(b(i)).

Both groups are not solvable, so no circuit of constant depth multiplies long words: attention and linear recurrences
with diagonal (or positive) transitions of a fixed depth fail beyond some length, an LSTM need not. The size is the
length of the word.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from sparsam.lab.tasks.task import Batch, register
from sparsam.lab.tasks.tokens.task import TokenTask

GROUPS = ("S5", "A5")


def elements(group: str) -> list[tuple[int, ...]]:
    """The group's permutations of 0..4 in lexicographic order; a token is a place in this list (0: the identity)."""
    if group not in GROUPS:
        raise ValueError(f"group: expected one of {', '.join(GROUPS)}, got {group!r}")
    every = list(itertools.permutations(range(5)))
    return every if group == "S5" else [permutation for permutation in every if _even(permutation)]


def multiplication_table(group: str) -> Tensor:
    """(n, n) int64: the token of a b for tokens a and b."""
    members = elements(group)
    place = {permutation: token for token, permutation in enumerate(members)}
    return torch.tensor([[place[tuple(a[i] for i in b)] for b in members] for a in members])


@register
class WordProblem(TokenTask):
    """Words of `min_length` to `max_length` elements, or at level h of 1 to h; every prefix is scored."""

    name = "word_problem"

    def __init__(self, group: str = "S5", min_length: int = 32, max_length: int = 32) -> None:
        if not 1 <= min_length <= max_length:
            raise ValueError(f"min_length: expected 1 <= min_length <= max_length, got {min_length} and {max_length}")
        self.group = group
        self.times = multiplication_table(group)
        self.vocabulary = len(self.times)
        self.min_length, self.max_length = min_length, max_length

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        low, high = (self.min_length, self.max_length) if level is None else (1, level)
        return self.sample_size(batch_size, generator, self.draw_between(low, high, generator))

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        """A minibatch of words of `size` elements."""
        self.check_batch_size(batch_size)
        if size < 1:
            raise ValueError(f"size: expected at least 1 element, got {size}")
        inputs = torch.randint(self.vocabulary, (size, batch_size), generator=generator)
        mask = torch.ones_like(inputs, dtype=torch.bool)
        return Batch(inputs, self.products(inputs), mask, level=size, answers=slice(0, size))

    def products(self, words: Tensor) -> Tensor:
        """The product of every prefix of words (T, B), by doubling: ceil(log2 T) passes over the whole."""
        products, span = words.clone(), 1
        while span < len(words):
            products[span:] = self.times[products[:-span], products[span:]]
            span *= 2
        return products

    def chance(self, size: int) -> float:
        """Error of guesses at every step; a model that knows the first answer alone has 1 / size less."""
        return 1 - 1 / self.vocabulary


def _even(permutation: tuple[int, ...]) -> bool:
    pairs = itertools.combinations(range(len(permutation)), 2)
    return sum(permutation[i] > permutation[j] for i, j in pairs) % 2 == 0
