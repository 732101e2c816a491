"""The Sparse Differentiable Neural Computer (section D): SAM's memory with sparse temporal links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks
from sparsam.models.sam import SAM
from sparsam.reference.addressing import gather_words, weighted_sum
from sparsam.reference.interface import Interface
from sparsam.reference.links import averaged_writes, follow_sparse_links, largest_rows, no_links, update_links
from sparsam.reference.temporal import mix_modes
from sparsam.state import State, dense_memory


@dataclass(frozen=True, eq=False)
class SDNCState(State):
    """State of the SDNC: SAM's and the links. `memory` and `links` are the engine's."""

    read: Tensor  # r (B, R, W)
    read_rows: Tensor  # (B, R, K) int64, -1 before the first read
    read_weights: Tensor  # w^R (B, R, K)
    memory: Any
    links: Any
    start: SDNCState | None = None


class SDNC(SAM):
    """SAM whose heads can also follow the order in which words were written, backward or forward.

    Writes, ring and usage are SAM's. After the write the links are updated (see `sparsam.reference.links` for every
    rule), and a head reads w^R = pi_b b + pi_c c + pi_f f, of which the K largest entries are kept, not renormalised.
    Rows of the interface: SAM's, then the read modes (3R, head by head backward, content, forward; a softmax).

    Args:
        k_links: K_L, the entries kept in each row of N and P and in p.
        link_gradients: whether N, P and p are differentiated. They are constants by default, as in the paper; the
            previous read weights get their share of the gradient through f and b either way.
        The others are those of `SAM`.
    """

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        k_links: int = 8,
        link_gradients: bool = False,
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
    ) -> None:
        checks.positive_int("num_heads", num_heads)
        super().__init__(
            input_size,
            output_size,
            hidden_size,
            memory_size,
            word_size,
            num_heads,
            k,
            index,
            similarity,
            delta,
            batch_first,
            engine,
            masked,
            layer_norm,
            bypass_dropout,
            _extra_interface=3 * num_heads,
        )
        self.k_links = checks.positive_int("k_links", k_links)
        self.link_gradients = bool(link_gradients)

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super().state_shapes(), "links": (self.memory_size, self.memory_size)}

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> State:
        like = self.output.weight
        memory = dense_memory(batch_size, self.memory_size, self.word_size, initial_memory, like)
        links = no_links(batch_size, self.memory_size, like)
        fields = self.controller_start(batch_size)
        start = SDNCState(**fields, memory=memory, links=links)
        return SDNCState(**fields, memory=memory, links=links, start=start)

    def reference_read(
        self, ask: Interface, words: Tensor, state: SDNCState, write_rows: Tensor, write_weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """The links of this step, then the mixed read."""
        before, written = state.links, averaged_writes(write_rows, write_weights, self.memory_size)
        if not self.link_gradients:
            before, written = before.detach(), written.detach()
        links = update_links(before, written, self.k_links)
        forward, backward = follow_sparse_links(links, state.read_rows, state.read_weights)
        content_rows, chosen = self.reference_content(ask, words)
        content = torch.zeros_like(forward).scatter(-1, content_rows, chosen)
        modes = torch.softmax(ask.rest[:, : 3 * self.num_heads].unflatten(-1, (self.num_heads, 3)), dim=-1)
        mixed = mix_modes(modes, backward, content, forward)
        rows = largest_rows(mixed, content_rows, self.k)
        weights = mixed.gather(-1, rows)
        read = weighted_sum(weights, gather_words(words, rows))
        return rows, weights, read, {"links": links}

    def extra_repr(self) -> str:
        return f"k_links={self.k_links}, link_gradients={self.link_gradients}, " + super().extra_repr()
