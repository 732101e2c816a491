"""The Neural Turing Machine (Graves 2014; section 2.3 of the paper): content and location addressing, erase and add."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsam import checks
from sparsam.engines.reference.access import READ, WRITE, DenseAccess
from sparsam.engines.reference.dense import dense_content_weights, dense_read, erase_and_add
from sparsam.engines.reference.location import TAPS, interpolate, sharpen, shift
from sparsam.models.base import MemoryModel
from sparsam.state import State

BLANK = 1e-6  # every number of a blank memory


@dataclass(frozen=True, eq=False)
class NTMState(State):
    """State of the NTM."""

    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N)
    write_weights: Tensor  # w^W (B, R, N)
    memory: Tensor  # M (B, N, W)
    start: NTMState | None = None


class Heads(NamedTuple):
    """What the controller asks of R heads that address the memory."""

    key: Tensor  # k (B, R, W)
    strength: Tensor  # beta (B, R), softplus
    gate: Tensor  # g (B, R), sigmoid
    taps: Tensor  # s (B, R, 3), softmax over shifts by -1, 0, +1
    exponent: Tensor  # gamma (B, R), 1 + softplus


class NTM(MemoryModel):
    """LSTM controller with R read heads and R write heads over N words; writes first, then reads.

    Rows of the interface, everywhere the read heads first and then the write heads, head by head: keys (2R·W),
    strengths (2R), gates (2R), shifts (2R·3), sharpening (2R); then, of the write heads alone, erase vectors (R·W) and
    add vectors (R·W), used as they are.

    A blank memory is 1e-6 everywhere. The words of the first 'previous read' are the parameter `initial_read` (R, W),
    zero in a new model. All heads start on row 0: the words of a blank memory are alike, so nothing else would ever
    tell one row from another.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads and as many write heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference".
        compile_step: run the step through `torch.compile`, which needs a C++ compiler and tens of seconds at the first
            call of each shape, and is worth it for long runs (docs/baselines.md).
    """

    name = "ntm"
    state_class = NTMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        batch_first: bool = False,
        engine: str = "auto",
        compile_step: bool = False,
    ) -> None:
        checks.positive_int("memory_size", memory_size)
        checks.positive_int("word_size", word_size)
        checks.at_most("num_heads", checks.positive_int("num_heads", num_heads), "memory_size", memory_size)
        self._interface_rows = [
            2 * num_heads * word_size,
            2 * num_heads,
            2 * num_heads,
            2 * num_heads * TAPS,
            2 * num_heads,
            num_heads * word_size,
            num_heads * word_size,
        ]
        read_size, rows = num_heads * word_size, sum(self._interface_rows)
        super().__init__(input_size, output_size, hidden_size, read_size, rows, batch_first, engine)
        self.initial_read = nn.Parameter(torch.zeros(num_heads, word_size))
        self.memory_size = memory_size
        self.word_size = word_size
        self.num_heads = num_heads
        self.compile_step = bool(compile_step)

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            **super().state_shapes(),
            "read": (self.num_heads, self.word_size),
            "read_weights": (self.num_heads, self.memory_size),
            "write_weights": (self.num_heads, self.memory_size),
            "memory": (self.memory_size, self.word_size),
        }

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> NTMState:
        like, shapes = self.output.weight, self.state_shapes()
        zeros = like.new_zeros(batch_size, self.hidden_size)
        weights = like.new_zeros(batch_size, *shapes["read_weights"])
        weights[..., 0] = 1.0
        blank = like.new_full(shapes["memory"], BLANK) if initial_memory is None else initial_memory
        fields: dict[str, Any] = {
            "hidden": zeros,
            "cell": zeros,
            # a copy, or a kept state would change with the parameter
            "read": self.initial_read.expand(batch_size, -1, -1).clone(),
            "read_weights": weights,
            "write_weights": weights,
            "memory": blank.expand(batch_size, -1, -1),
        }
        return NTMState(**fields, start=NTMState(**fields))

    def reference_step(self, x: Tensor, state: NTMState) -> tuple[Tensor, NTMState, list[DenseAccess]]:
        """Write first, then read."""
        return compiled_step()(self, x, state) if self.compile_step else self.plain_step(x, state)

    def plain_step(self, x: Tensor, state: NTMState) -> tuple[Tensor, NTMState, list[DenseAccess]]:
        """The step itself."""
        hidden, cell = self.control(x, state)
        readers, writers, erase, add = self._split_interface(self.interface(hidden))
        w_write = address(writers, state.memory, state.write_weights)
        words = erase_and_add(state.memory, w_write, erase, add)
        w_read = address(readers, words, state.read_weights)
        read = dense_read(w_read, words)
        y = self.answer(hidden, read)
        after = NTMState(hidden, cell, read, w_read, w_write, words, state.start)
        return y, after, [DenseAccess(WRITE, w_write), DenseAccess(READ, w_read)]

    def _split_interface(self, vector: Tensor) -> tuple[Heads, Heads, Tensor, Tensor]:
        """The read heads, the write heads, and the erase and add vectors (B, R, W) of the latter."""
        heads, width = self.num_heads, self.word_size
        keys, strengths, gates, taps, exponents, erase, add = vector.split(self._interface_rows, dim=-1)
        both = Heads(
            keys.unflatten(-1, (2 * heads, width)),
            F.softplus(strengths),
            torch.sigmoid(gates),
            torch.softmax(taps.unflatten(-1, (2 * heads, TAPS)), dim=-1),
            1 + F.softplus(exponents),
        )
        readers, writers = zip(*(part.split(heads, dim=1) for part in both))
        erase, add = (part.unflatten(-1, (heads, width)) for part in (erase, add))
        return Heads(*readers), Heads(*writers), torch.sigmoid(erase), add

    def extra_repr(self) -> str:
        return (
            f"memory_size={self.memory_size}, word_size={self.word_size}, num_heads={self.num_heads}, "
            + super().extra_repr()
        )


@functools.cache
def compiled_step() -> Callable[[NTM, Tensor, NTMState], tuple[Tensor, NTMState, list[DenseAccess]]]:
    """`NTM.plain_step` compiled, for all models: kept here, so that a model can still be copied and pickled."""
    return torch.compile(NTM.plain_step)


def address(heads: Heads, words: Tensor, previous: Tensor) -> Tensor:
    """Weights (B, R, N): by content, gated with the previous weights, shifted, sharpened (Graves 2014, figure 2)."""
    content = dense_content_weights("cosine", heads.key, heads.strength, words)
    return sharpen(shift(interpolate(heads.gate, content, previous), heads.taps), heads.exponent)
