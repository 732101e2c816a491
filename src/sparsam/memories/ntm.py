"""The memory of the Neural Turing Machine (Graves 2014; section 2.3): addressing by content and location."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.memories.addressing import dense_content_weights
from sparsam.memories.interface import Field, Interface
from sparsam.memories.memory import DenseMemoryModel, Step, dense_read, erase_and_add
from sparsam.state import State
from sparsam.trace import READ, WRITE, DenseAccess

BLANK = 1e-6  # every number of a blank memory
TAPS = 3  # shifts by -1, 0 and +1


class NTMState(State):
    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N)
    write_weights: Tensor  # w^W (B, R, N)
    memory: Tensor  # M (B, N, W)
    start: NTMState | None = None


class Heads(NamedTuple):
    """Where R heads are to look, as the controller says."""

    key: Tensor  # k (B, R, W)
    strength: Tensor  # beta (B, R), softplus
    gate: Tensor  # g (B, R), sigmoid
    taps: Tensor  # s (B, R, 3), softmax over shifts by -1, 0, +1
    exponent: Tensor  # gamma (B, R), 1 + softplus


class NTMMemory(DenseMemoryModel):
    """R read heads and R write heads over N words.

    A blank memory is 1e-6 everywhere. All heads start on row 0: the words of a blank memory are alike, so nothing else
    would ever tell one row from another.
    """

    name = "ntm"
    state_class = NTMState

    @property
    def interface(self) -> Interface:
        """Everywhere the read heads first and then the write heads; erase and add of the write heads alone."""
        heads, width = self.heads, self.width
        reads, writes = ("lookup", 0, heads, 1), ("place", heads, 2 * heads, 1)
        stay, forth = ("lookup", 1, TAPS * heads, TAPS), ("next", TAPS * heads + 2, TAPS * 2 * heads, TAPS)
        return Interface(
            (
                Field("keys", (2 * heads, width), role="query"),
                Field("strengths", (2 * heads,), "softplus", "sharpness"),
                Field("gates", (2 * heads,), "sigmoid", parts=(reads, writes)),
                Field("taps", (2 * heads, TAPS), "softmax", parts=(stay, forth)),
                Field("exponents", (2 * heads,), "one_plus"),
                Field("erase", (heads, width), "sigmoid"),
                Field("add", (heads, width), role="word"),
            )
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "read": (self.heads, self.width),
            "read_weights": (self.heads, self.rows),
            "write_weights": (self.heads, self.rows),
            "memory": (self.rows, self.width),
        }

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        weights = like.new_zeros(batch, self.heads, self.rows)
        weights[..., 0] = 1.0
        return {
            "read": like.new_zeros(batch, self.heads, self.width),
            "read_weights": weights,
            "write_weights": weights,
            "memory": self.starting_words(batch, initial, like, BLANK),
        }

    def heads_of(self, vector: Tensor) -> tuple[Heads, Heads, Tensor, Tensor]:
        """The read heads, the write heads, and the erase and add vectors (B, R, W) of the latter."""
        fields = self.interface.split(vector)
        both = (fields[name] for name in ("keys", "strengths", "gates", "taps", "exponents"))
        readers, writers = zip(*(part.split(self.heads, dim=1) for part in both))
        return Heads(*readers), Heads(*writers), fields["erase"], fields["add"]

    def step(self, vector: Tensor, state: Any) -> Step:
        readers, writers, erase, add = self.heads_of(vector)
        w_write = address(writers, state.memory, state.write_weights)
        words = erase_and_add(state.memory, w_write, erase, add)
        w_read = address(readers, words, state.read_weights)
        read = dense_read(w_read, words)
        fields = {"read": read, "read_weights": w_read, "write_weights": w_write, "memory": words}
        return read, fields, [DenseAccess(WRITE, w_write), DenseAccess(READ, w_read)]


def address(heads: Heads, words: Tensor, previous: Tensor) -> Tensor:
    """Weights (B, R, N): by content, gated with the previous weights, shifted, sharpened (Graves 2014, figure 2)."""
    content = dense_content_weights("cosine", heads.key, heads.strength, words)
    return sharpen(shift(interpolate(heads.gate, content, previous), heads.taps), heads.exponent)


def interpolate(gate: Tensor, content: Tensor, previous: Tensor) -> Tensor:
    """Graves 2014, eq. 7: w^g = g w^c + (1 - g) w_{t-1}; gate (B, R), weights (B, R, N)."""
    return torch.lerp(previous, content, gate[..., None])


def shift(weights: Tensor, taps: Tensor) -> Tensor:
    """Graves 2014, eq. 8: w~(i) = sum_j w^g(j) s(i - j), circular in N; taps s (B, R, 3) for shifts -1, 0, +1."""
    back, stay, forth = taps.unsqueeze(-2).unbind(dim=-1)
    return back * weights.roll(-1, dims=-1) + stay * weights + forth * weights.roll(1, dims=-1)


def sharpen(weights: Tensor, exponent: Tensor) -> Tensor:
    """Graves 2014, eq. 9: w(i) = w~(i)^gamma / sum_j w~(j)^gamma; exponent gamma >= 1 (B, R).

    The weights are first divided by their largest, a factor that cancels (so it is a constant for the gradient), and
    the sum can never underflow.
    """
    scaled = weights / weights.detach().amax(dim=-1, keepdim=True)
    powers = scaled.pow(exponent[..., None])
    return powers / powers.sum(dim=-1, keepdim=True)
