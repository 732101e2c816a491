"""The models of `sparsam bench learn`, with their default arguments, and recurrent layers of torch beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import sparsam
from sparsam.memories.interface import Interface
from sparsam.start import checked, numbers


class Asking(nn.Module):
    """An interface that is changed in one place: `SAM sees x`, `SAM beta 11` or `SAM query norm`."""

    x: Tensor

    def __init__(self, change: str, hidden: int, inputs: int, fields: Interface, start: Any) -> None:
        super().__init__()
        self.change, self.sizes = change, [entry.size for entry in fields.fields]
        self.names = [entry.name for entry in fields.fields]
        self.layer = nn.Linear(hidden + (inputs if change == "SAM sees x" else 0), fields.size)
        numbers(checked(start)).move_interface(self.layer, fields)
        self.heads = fields.fields[self.names.index("strength")].size

    def forward(self, hidden: Tensor) -> Tensor:
        if self.change == "SAM sees x":
            return self.layer(torch.cat([hidden, self.x], dim=-1))
        parts = list(self.layer(hidden).split(self.sizes, dim=-1))
        if self.change == "SAM beta 11":  # 1 + softplus(10), and near 0 what it was
            at = self.names.index("strength")
            parts[at] = 10 * (parts[at] / 10).tanh()
        else:
            at = self.names.index("query")
            query = parts[at].unflatten(-1, (self.heads, -1))
            parts[at] = nn.functional.layer_norm(query, query.shape[-1:]).flatten(-2)
        return torch.cat(parts, dim=-1)


class ChangedSAM(sparsam.SAM):
    """SAM with an `Asking` interface."""

    def __init__(self, inputs: int, outputs: int, start: Any, change: str) -> None:
        super().__init__(inputs, outputs, start=start)
        self.interface: Any = Asking(change, self.hidden_size, inputs, self.memory.interface, start)

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        self.interface.x = x
        return super().control(x, state)


# Models with an option, which `--models` names; a run of all leaves them out.
CHANGED = ("SAM sees x", "SAM beta 11", "SAM query norm")
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "SAM erase": ("SAM", {"erase": True}),
    "SAM clip 1": ("SAM", {"backward_clip": 1.0}),
    "SDNC clip 1": ("SDNC", {"backward_clip": 1.0}),
}
WITH_MEMORY = ("SAM", "SDNC", "SparseMemory", "DAM", "NTM", "DNC", *OPTIONS, *CHANGED)


class WithOutput(nn.Module):
    """`nn.LSTM` or `nn.GRU` and a linear map."""

    def __init__(self, kind: Callable[[int, int], nn.Module], inputs: int, outputs: int, hidden: int) -> None:
        super().__init__()
        self.recurrent, self.output = kind(inputs, hidden), nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        hidden, state = self.recurrent(x)
        return self.output(hidden), state


class Block(nn.Module):
    """Two layers of `SparseMemory`, each behind a norm and beside a residual, between two linear maps."""

    def __init__(self, inputs: int, outputs: int, width: int, **start: Any) -> None:
        super().__init__()
        self.embed, self.output = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.layers = nn.ModuleList(sparsam.SparseMemory(width, **start) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        x = self.embed(x)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))[0]
        return self.output(self.norms[-1](x)), None


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def make(name: str, inputs: int, outputs: int, seed: int, start: Any = "open") -> nn.Module:
    """A model by name. Torch's layers and the block have as many parameters as SAM, `LSTM x4` four times as many."""
    torch.manual_seed(seed)
    if name in CHANGED:
        return ChangedSAM(inputs, outputs, start, name)
    if name in WITH_MEMORY and name != "SparseMemory":
        kind, options = OPTIONS.get(name, (name, {}))
        made: nn.Module = getattr(sparsam, kind)(inputs, outputs, start=start, **options)
        return made
    with torch.device("meta"):
        wanted = parameters(sparsam.SAM(inputs, outputs)) * (4 if name == "LSTM x4" else 1)
    if name == "SparseMemory":
        return sized(lambda width: Block(inputs, outputs, width, start=start), wanted, seed)
    layer = nn.GRU if name == "GRU" else nn.LSTM
    return sized(lambda hidden: WithOutput(layer, inputs, outputs, hidden), wanted, seed)


def sized(build: Callable[[int], nn.Module], wanted: int, seed: int) -> nn.Module:
    """The widest that has no more parameters than wanted."""
    low, high = 1, 4096
    with torch.device("meta"):
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if parameters(build(middle)) <= wanted else (low, middle)
    torch.manual_seed(seed)
    return build(low)
