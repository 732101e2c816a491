"""The Differentiable Neural Computer (Graves 2016; section D of the paper): allocation, temporal links, read modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam import checks
from sparsam.engines.reference.access import READ, WRITE, DenseAccess
from sparsam.engines.reference.allocation import allocation_weights, dnc_usage, retention
from sparsam.engines.reference.deallocation import deallocated
from sparsam.engines.reference.dense import dense_content_weights, dense_read, erase_and_add
from sparsam.engines.reference.link_step import link_step
from sparsam.engines.reference.masking import masked_content_weights
from sparsam.engines.reference.temporal import mix_modes, precedence_weights
from sparsam.models.base import MemoryModel
from sparsam.state import State


@dataclass(frozen=True, eq=False)
class DNCState(State):
    """State of the DNC."""

    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N)
    write_weights: Tensor  # w^W (B, N)
    usage: Tensor  # u (B, N)
    precedence: Tensor  # p (B, N)
    link: Tensor  # L (B, N, N)
    memory: Tensor  # M (B, N, W)
    start: DNCState | None = None


class DNCInterface(NamedTuple):
    """What the controller asks of the memory at one step."""

    read_keys: Tensor  # k^r (B, R, W)
    read_strengths: Tensor  # beta^r (B, R), 1 + softplus
    write_key: Tensor  # k^w (B, 1, W)
    write_strength: Tensor  # beta^w (B, 1), 1 + softplus
    erase: Tensor  # e (B, 1, W), sigmoid
    write_word: Tensor  # v (B, 1, W)
    free_gates: Tensor  # f (B, R), sigmoid
    allocation_gate: Tensor  # g^a (B, 1), sigmoid
    write_gate: Tensor  # g^w (B, 1), sigmoid
    read_modes: Tensor  # pi (B, R, 3), softmax over backward, content, forward
    read_masks: Tensor | None  # m (B, R, W), sigmoid
    write_mask: Tensor | None  # m (B, 1, W), sigmoid


class DNC(MemoryModel):
    """LSTM controller with R read heads and one write head over N words; writes first, then reads.

    Rows of the interface, in the order of Graves 2016: read keys (R·W), read strengths (R), write key (W), write
    strength (1), erase vector (W), write vector (W), free gates (R), allocation gate (1), write gate (1), read modes
    (3R, head by head backward, content, forward). A blank memory is all zero; usage, links, precedence and weights
    start at zero. Only the order by usage is a constant for the gradient.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference".
        masked: masked content addressing (`reference.masking`; Csordas and Schmidhuber 2019). The interface
            ends with a mask for each read key (R·W) and one for the write key (W), sigmoids.
        deallocate: what is freed is erased (`reference.deallocation`; Csordas and Schmidhuber 2019).
        layer_norm: layer-normalised controller (`reference.layer_norm`; Franke et al. 2018), which adds the
            parameters `controller_norm`.
        bypass_dropout: dropout between controller and output layer (`reference.bypass`; Franke et al. 2018).
    """

    name = "dnc"
    state_class = DNCState

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
        masked: bool = False,
        deallocate: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
    ) -> None:
        checks.positive_int("memory_size", memory_size)
        checks.positive_int("word_size", word_size)
        checks.at_most("num_heads", checks.positive_int("num_heads", num_heads), "memory_size", memory_size)
        words = num_heads * word_size
        self._interface_rows = [
            words,
            num_heads,
            word_size,
            1,
            word_size,
            word_size,
            num_heads,
            1,
            1,
            3 * num_heads,
            words + word_size if masked else 0,
        ]
        rows = sum(self._interface_rows)
        super().__init__(
            input_size, output_size, hidden_size, words, rows, batch_first, engine, layer_norm, bypass_dropout
        )
        self.masked = bool(masked)
        self.deallocate = bool(deallocate)
        self.memory_size = memory_size
        self.word_size = word_size
        self.num_heads = num_heads

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            **super().state_shapes(),
            "read": (self.num_heads, self.word_size),
            "read_weights": (self.num_heads, self.memory_size),
            "write_weights": (self.memory_size,),
            "usage": (self.memory_size,),
            "precedence": (self.memory_size,),
            "link": (self.memory_size, self.memory_size),
            "memory": (self.memory_size, self.word_size),
        }

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> DNCState:
        like, shapes = self.output.weight, self.state_shapes()
        fields: dict[str, Any] = {
            name: like.new_zeros(batch_size, *shape) for name, shape in shapes.items() if name not in ("memory", "link")
        }
        fields["link"] = like.new_zeros(1, 1, 1).expand(batch_size, *shapes["link"])  # no bytes before the first write
        blank = like.new_zeros(shapes["memory"]) if initial_memory is None else initial_memory
        fields["memory"] = blank.expand(batch_size, -1, -1)
        return DNCState(**fields, start=DNCState(**fields))

    def reference_step(self, x: Tensor, state: DNCState) -> tuple[Tensor, DNCState, list[DenseAccess]]:
        """Usage and allocation, the write, the links, then the reads (Graves 2016, Methods)."""
        hidden, cell = self.control(x, state)
        ask = self._split_interface(self.interface(hidden))
        retained = retention(ask.free_gates, state.read_weights)
        usage = dnc_usage(state.usage, state.write_weights, retained)
        content = content_weights(ask.write_key, ask.write_strength, ask.write_mask, state.memory)[:, 0]
        w_write = ask.write_gate * torch.lerp(content, allocation_weights(usage), ask.allocation_gate)
        words = deallocated(state.memory, retained) if self.deallocate else state.memory
        words = erase_and_add(words, w_write[:, None], ask.erase, ask.write_word)
        link, forward, backward = link_step(state.link, state.precedence, w_write, state.read_weights)
        precedence = precedence_weights(state.precedence, w_write)
        content = content_weights(ask.read_keys, ask.read_strengths, ask.read_masks, words)
        w_read = mix_modes(ask.read_modes, backward, content, forward)
        read = dense_read(w_read, words)
        y = self.answer(hidden, read)
        after = DNCState(hidden, cell, read, w_read, w_write, usage, precedence, link, words, state.start)
        return y, after, [DenseAccess(WRITE, w_write[:, None]), DenseAccess(READ, w_read)]

    def _split_interface(self, vector: Tensor) -> DNCInterface:
        parts = vector.split(self._interface_rows, dim=-1)
        keys, strengths, key, strength, erase, word, free, allocation, write, modes, masks = parts
        read_masks = write_mask = None
        if self.masked:
            both = torch.sigmoid(masks).unflatten(-1, (self.num_heads + 1, self.word_size))
            read_masks, write_mask = both.split([self.num_heads, 1], dim=1)
        return DNCInterface(
            keys.unflatten(-1, (self.num_heads, self.word_size)),
            1 + F.softplus(strengths),
            key[:, None],
            1 + F.softplus(strength),
            torch.sigmoid(erase)[:, None],
            word[:, None],
            torch.sigmoid(free),
            torch.sigmoid(allocation),
            torch.sigmoid(write),
            torch.softmax(modes.unflatten(-1, (self.num_heads, 3)), dim=-1),
            read_masks,
            write_mask,
        )

    def extra_repr(self) -> str:
        return (
            f"memory_size={self.memory_size}, word_size={self.word_size}, num_heads={self.num_heads}, "
            + super().extra_repr()
        )


def content_weights(keys: Tensor, strengths: Tensor, masks: Tensor | None, words: Tensor) -> Tensor:
    """C(M, k, beta) of Graves 2016 by cosine, (B, R, N), masked where there are masks."""
    if masks is None:
        return dense_content_weights("cosine", keys, strengths, words)
    return masked_content_weights(keys, strengths, masks, words)
