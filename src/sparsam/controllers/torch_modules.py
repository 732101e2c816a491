"""`nn.LSTM` and `nn.GRU` as controllers: classes that `torch.compile` takes, and their states in our layout.

`torch.compile` refuses to look at modules of those two types. Parameters, settings and methods of the classes here are
torch's own, so weights and code of the one serve the other. Our states are batch first, and a single layer has no
dimension of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from sparsam.controllers.kind import ControllerKind


class LSTMController(nn.RNNBase):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    get_expected_cell_size = nn.LSTM.get_expected_cell_size
    check_forward_args = nn.LSTM.check_forward_args  # type: ignore[assignment]
    permute_hidden = nn.LSTM.permute_hidden  # type: ignore[assignment]
    forward = nn.LSTM.forward


class GRUController(nn.RNNBase):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    forward = nn.GRU.forward


def layers_last(module: Any, carried: Tensor) -> Tensor:
    """(layers, B, H) to (B, H), or (B, layers, H) with several layers."""
    return carried[0] if module.num_layers == 1 else carried.transpose(0, 1)


def layers_first(module: Any, carried: Tensor) -> Tensor:
    """(B, H) or (B, layers, H) to (layers, B, H), as torch takes it."""
    return (carried[None] if module.num_layers == 1 else carried.transpose(0, 1)).contiguous()


def carried_shape(module: Any) -> tuple[int, ...]:
    """The shape of h or c, without the batch dimension."""
    layers, width = module.num_layers, module.hidden_size
    return (width,) if layers == 1 else (layers, width)


class RecurrentKind(ControllerKind):
    """One layer or several of `nn.LSTM` or `nn.GRU`; states carry the fields that are `carried`."""

    carried: ClassVar[tuple[str, ...]]
    plain_step: ClassVar[Callable[..., Any]]  # one layer's, from x and what it carries: as the module returns it

    def make(self, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any) -> nn.Module:
        return self.module(input_size, hidden_size, num_layers, dropout=dropout, **factory)

    def output_size(self, module: Any, hidden_size: int) -> int:
        return int(module.hidden_size)

    def shapes(self, module: Any) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.carried, carried_shape(module))

    def step(self, module: Any, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        carried = [getattr(state, name) for name in self.carried]
        if self.why_not_fused(module) is None:
            last = self.plain_step(module, x, *carried)
            after = last if isinstance(last, tuple) else (last,)
            return after[0], dict(zip(self.carried, after))
        time, first = 1 if module.batch_first else 0, tuple(layers_first(module, value) for value in carried)
        y, last = module(x.unsqueeze(time), first if len(first) > 1 else first[0])
        after = last if isinstance(last, tuple) else (last,)
        return y.squeeze(time), {name: layers_last(module, value) for name, value in zip(self.carried, after)}

    def why_not_fused(self, module: Any) -> str | None:
        return super().why_not_fused(module) or why_not_plain(module)

    def places(self, module: Any) -> tuple[tuple[nn.Module, str], ...]:
        return tuple((module, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"))


def why_not_plain(module: Any) -> str | None:
    """Why a recurrent module is not one layer with biases, forward in time; None when it is."""
    if module.bidirectional:
        raise ValueError("controller: expected a module that runs forward in time, got bidirectional=True; a memory "
                         "has no backward direction")  # fmt: skip
    if getattr(module, "proj_size", 0):
        raise ValueError(f"controller: expected proj_size = 0, got {module.proj_size}")
    if module.num_layers != 1:
        return f"controller has {module.num_layers} layers"
    return None if module.bias else "controller has no biases"
