"""SAM's memory as a layer for your own model, without a controller: only the memory is recurrent.

    v_t = interface(sum_j c_j x_{t-j});   r_t read by steps 2 to 6 of SAM for v_t;   y_t = output([x_t, r_t])

A key and its value usually arrive at different steps, so the interface sees a causal convolution over the last few
inputs (`conv`, 4 by default; one weight per channel and step). The linear maps run over all steps at once.

A fresh linear map would write half of every word to the rows that were just read, which wears away what is stored
there: recall then takes long to learn or is not found (docs/notebook/beside_attention.md). So the layer begins with
its gates open: a word is written whole, to a row of its own, and reads are sharp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sparsam import checks, indexes
from sparsam import start as starts
from sparsam.controllers.kind import why_changed
from sparsam.engines.native import convolution, linear
from sparsam.engines.plan import Plan
from sparsam.memories.description import SparseSizes
from sparsam.memories.sam import SAMMemory, SparseState
from sparsam.memories.sdnc import SDNCMemory
from sparsam.models.composition import setting, sparse_setting
from sparsam.models.contract import Recurrent
from sparsam.start import Start
from sparsam.state import State, Store
from sparsam.trace import Access
from sparsam.transfer import blank_past, sent


class SparseMemoryState(SparseState):
    """State of the layer: what SAM's or the SDNC's memory carries, and the last inputs."""

    links: Store | None = None
    window: Tensor | None = None  # (B, conv - 1, D), the oldest first
    start: SparseMemoryState | None = None


class SparseMemory(Recurrent[SparseMemoryState]):
    """A layer (T, B, D) -> (T, B, D') with a sparse memory of N words.

    Args:
        input_size: D, the width of x.
        output_size: D', the width of y; None for D.
        links: K_L, links kept per row as in the SDNC; 0 for none.
        conv: how many inputs the causal convolution before the interface sees; 0 for no convolution.
        link_gradients, allocation: as in `SDNC`; only with links.

    The other arguments are those of `SAM`.
    """

    state_class = SparseMemoryState
    memory: SAMMemory

    memory_size, word_size, num_heads = sparse_setting("rows"), setting("memory.width"), setting("memory.heads")
    k, similarity, delta = sparse_setting("k"), sparse_setting("similarity"), sparse_setting("delta")
    index, links = sparse_setting("index", indexes.resolve), setting("memory.sizes.k_links")
    allocation, link_gradients = setting("memory.sizes.allocation"), sparse_setting("link_gradients")
    erase = setting("memory.sizes.erase")

    def __init__(
        self,
        input_size: int,
        output_size: int | None = None,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        links: int = 0,
        index: str | indexes.Index = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        conv: int = 4,
        link_gradients: bool = False,
        allocation: str = "ring",
        batch_first: bool = False,
        engine: str = "auto",
        *,
        erase: bool = False,
        start: str | Start = "open",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(batch_first, engine)
        self.input_size = checks.positive_int("input_size", input_size)
        self.output_size = input_size if output_size is None else checks.positive_int("output_size", output_size)
        if links != 0 or isinstance(links, bool):
            checks.positive_int("links", links)
        elif link_gradients or allocation != "ring":
            raise ValueError("links: expected at least 1 with link_gradients or allocation='free', got 0")
        if conv != 0 or isinstance(conv, bool):
            checks.positive_int("conv", conv)
        self._began = starts.checked(start)
        found, linked = indexes.resolve(index), (links, link_gradients, allocation)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, *linked, found, erase)
        self.memory = SDNCMemory(sizes) if links else SAMMemory(sizes)
        self.memory.warn_if_small()
        made: dict[str, Any] = {"device": device, "dtype": checks.floating_dtype("dtype", dtype)}
        # The parameters of a depthwise nn.Conv1d; `past_and_present` applies them in the layout (T, B, D).
        self.conv = nn.Conv1d(input_size, input_size, conv, groups=input_size, **made) if conv else None
        self.interface = nn.Linear(input_size, sizes.interface.size, **made)
        self.output = nn.Linear(input_size + sizes.read_size, self.output_size, **made)
        starts.numbers(start).move_interface(self.interface, self.memory.interface)

    @property
    def reach(self) -> int:
        """How many earlier inputs the interface sees."""
        return 0 if self.conv is None else self.conv.kernel_size[0] - 1

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"window": (self.reach, self.input_size)}

    def run(
        self, plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, State, Sequence[Access]]:
        native = plan.engine.name == "native"
        seen, window = self.past_and_present(x, state.window.to(x.dtype), ends, native)
        ran = plan.engine.steps(plan.memory, self._linear("interface", native, seen), state, ends, record)
        y = blank_past(self._linear("output", native, x, ran.joint.to(x.dtype)), ends)
        return y, state.with_fields(**ran.fields, window=window.to(state.window.dtype)), ran.accesses

    def _linear(self, name: str, native: bool, *inputs: Tensor) -> Tensor:
        """A linear layer on its inputs side by side, in the core where that can."""
        layer: nn.Linear = getattr(self, name)
        if native and linear.why_not(name, layer, *inputs) is None:
            return linear.linear(layer, *inputs)
        return layer(inputs[0] if len(inputs) == 1 else torch.cat(inputs, dim=-1))

    def past_and_present(
        self, x: Tensor, window: Tensor, ends: Tensor | None, native: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The convolution of x (T, B, D) and the inputs before it, and the window after it.

        `native`: in the core where that can.
        """
        if self.conv is None:
            return x, window
        steps, reach = x.shape[0], self.reach
        as_made = why_changed("conv", self.conv, nn.Conv1d) is None
        inputs = (window, x, self.conv.weight[:, 0], self.conv.bias) if native and as_made and steps >= reach else None
        mixed = None if inputs is None or convolution.why_not(*inputs) else convolution.convolve(*inputs)
        if mixed is not None and ends is None:
            return mixed, x[steps - reach :].transpose(0, 1)
        whole = torch.cat([window.transpose(0, 1), x])
        if ends is None:
            after = whole[steps:].transpose(0, 1)
        else:
            at = sent(ends, x.device)[:, None] + torch.arange(reach, device=x.device)
            after = whole.transpose(0, 1).gather(1, at[..., None].expand(-1, -1, x.shape[-1]))
        if mixed is not None:
            return mixed, after
        if not as_made:
            return self.conv(whole.permute(1, 2, 0)).permute(2, 0, 1), after
        taps, bias = self.conv.weight[:, 0].unbind(-1), self.conv.bias
        mixed = whole[reach:] * taps[reach]  # products are rounded, as in the core and in a traced layer
        mixed = mixed if bias is None else bias + mixed
        for j in range(reach):
            mixed = mixed + whole[j : j + steps] * taps[j]
        return mixed, after
