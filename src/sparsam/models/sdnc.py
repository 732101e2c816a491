"""The Sparse Differentiable Neural Computer (section D): SAM's memory with sparse temporal links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks
from sparsam.engines.reference import free_usage
from sparsam.engines.reference.addressing import gather_words, weighted_sum
from sparsam.engines.reference.interface import Interface
from sparsam.engines.reference.links import averaged_writes, follow_sparse_links, largest_rows, no_links, update_links
from sparsam.engines.reference.temporal import mix_modes
from sparsam.engines.reference.usage import least_used
from sparsam.models.sam import SAM
from sparsam.state import State, dense_memory

ALLOCATIONS = ("ring", "free")


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

    Writes, ring and usage are SAM's. After the write the links are updated (see `reference.links` for every
    rule), and a head reads w^R = pi_b b + pi_c c + pi_f f, of which the K largest entries are kept, not renormalised.
    Rows of the interface: SAM's, then the read modes (3R, head by head backward, content, forward; a softmax).

    With `allocation="free"` usage decides which words are written anew instead of the ring (see
    `reference.free_usage`), as in the DNC: a step frees u(i) <- u(i) prod_h (1 - f_h w^R_{t-1,h}(i)), writes
    w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) (1 - u(u_h)) 1[u_h]) to the R rows u_h of least usage, and ends
    with u <- u + w - u w. The interface then has the free gates f (R, sigmoid) after the read modes, and `delta` is of
    no account.

    Args:
        k_links: K_L, the entries kept in each row of N and P and in p.
        link_gradients: whether N, P and p are differentiated. They are constants by default, as in the paper; the
            previous read weights get their share of the gradient through f and b either way.
        allocation: "ring", the paper's least recently accessed words, or "free", the least used ones.
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
        allocation: str = "ring",
    ) -> None:
        checks.positive_int("num_heads", num_heads)
        checks.one_of("allocation", allocation, ALLOCATIONS)
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
            _extra_interface=(4 if allocation == "free" else 3) * num_heads,
        )
        self.k_links = checks.positive_int("k_links", k_links)
        self.link_gradients = bool(link_gradients)
        self.allocation = allocation

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super().state_shapes(), "links": (self.memory_size, self.memory_size)}

    def reference_state(self, batch_size: int, initial_memory: Tensor | None) -> State:
        like = self.output.weight
        memory = dense_memory(batch_size, self.memory_size, self.word_size, initial_memory, like)
        if self.allocation == "free":
            memory = replace(memory, usage=like.new_zeros(batch_size, self.memory_size))
        links = no_links(batch_size, self.memory_size, like)
        fields = self.controller_start(batch_size)
        start = SDNCState(**fields, memory=memory, links=links)
        return SDNCState(**fields, memory=memory, links=links, start=start)

    def reference_unused(self, ask: Interface, state: SDNCState) -> tuple[Tensor, Tensor | None]:
        """The ring's rows, or those of least usage once words are freed."""
        if (state.memory.usage is not None) != (self.allocation == "free"):
            raise ValueError(f"state: expected one of allocation={self.allocation!r}, got one of the other")
        if self.allocation == "ring":
            return super().reference_unused(ask, state)
        gates = torch.sigmoid(ask.rest[:, 3 * self.num_heads : 4 * self.num_heads])
        usage = free_usage.freed(state.memory.usage, gates, state.read_rows, state.read_weights)
        return least_used(usage.detach(), self.num_heads), usage

    def reference_accessed(
        self,
        memory: Any,
        usage: Tensor | None,
        write_rows: Tensor,
        w_write: Tensor,
        read_rows: Tensor,
        w_read: Tensor,
    ) -> dict[str, Tensor]:
        """The ring, or the usage of the rows written."""
        if usage is None:
            return super().reference_accessed(memory, usage, write_rows, w_write, read_rows, w_read)
        return {"usage": free_usage.filled(usage, averaged_writes(write_rows, w_write, self.memory_size))}

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
        return (
            f"k_links={self.k_links}, link_gradients={self.link_gradients}, allocation={self.allocation!r}, "
            + super().extra_repr()
        )
