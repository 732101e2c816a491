"""The models of `sparsam bench learn`, with their default arguments, and recurrent layers of torch beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import sparsam

# Models with an option, which `--models` names; a run of all leaves them out.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "SAM erase": ("SAM", {"erase": True}),
    "SAM clip 1": ("SAM", {"backward_clip": 1.0}),
    "SDNC clip 1": ("SDNC", {"backward_clip": 1.0}),
}
WITH_MEMORY = ("SAM", "SDNC", "SparseMemory", "DAM", "NTM", "DNC", *OPTIONS)


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
