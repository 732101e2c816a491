"""What a kind of controller is to the models and the engines.

A controller is an `nn.Module` that the model owns as `model.controller`; its kind says how it is made, what it carries
from step to step, and how it is driven. A further kind is a file beside `lstm.py` that ends with `register(...)`.

An engine reads the weights of a module that is still what its class says. One that a user has changed (hooks, another
`forward` or class) is called. Parametrizations (weight norm) need no call: they are seen where the weight is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from sparsam.start import Start


class ControllerKind(ABC):
    """How controllers of one kind are made and driven."""

    name: ClassVar[str]
    module: ClassVar[type[nn.Module]]  # modules of this type are of this kind
    twin: ClassVar[type[nn.Module] | None] = None  # and those of this one, whose forward is the same
    fused: ClassVar[str | None] = None  # what the fast engines call it, where they can run it inside their own loop
    options: ClassVar[dict[str, Any]] = {}  # arguments of a model's constructor that ask for it, besides `controller`

    @abstractmethod
    def make(self, input_size: int, hidden_size: int, num_layers: int, dropout: float, **factory: Any) -> nn.Module:
        """A new controller; `factory` holds device and dtype."""

    def begin(self, module: nn.Module, start: Start) -> None:
        """Move the first weights of a new controller."""
        if start.feedforward:
            raise ValueError(f"start.feedforward: expected 0 beside controller={self.name!r}, got {start.feedforward}")

    def output_size(self, module: nn.Module, hidden_size: int) -> int:
        """H, the width of h_t."""
        return hidden_size

    def shapes(self, module: nn.Module) -> dict[str, tuple[int, ...]]:
        """Shapes of what a state holds for the controller, without the batch dimension; it begins with zeros."""
        return {}

    def carries(self, module: nn.Module) -> dict[str, Callable[[int], Any]]:
        """What else a state holds for it, and what makes that for a batch."""
        return {}

    @abstractmethod
    def step(self, module: nn.Module, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        """h_t (B, H) for an input (B, I + R·W), and the fields after it."""

    def why_not_fused(self, module: nn.Module) -> str | None:
        """Why a fast engine cannot run this controller inside its own loop; None when it can."""
        if self.fused is None:
            return f"a controller of kind {self.name!r} is called step by step"
        twin = self.twin is not None and isinstance(module, self.twin)
        return why_changed("controller", module, self.twin if twin else self.module)  # type: ignore[arg-type]

    def places(self, module: nn.Module) -> tuple[tuple[nn.Module, str], ...]:
        """Where W_ih, W_hh, b_ih and b_hh of a controller that can be fused are; W and b of a feed-forward one."""
        raise TypeError(f"controller: expected one that an engine can fuse, got kind {self.name!r}")

    def weights(self, module: nn.Module) -> tuple[Tensor, ...]:
        return tuple(getattr(layer, name) for layer, name in self.places(module))


KINDS: dict[str, ControllerKind] = {}
_by_type: dict[type[nn.Module], ControllerKind] = {}  # what `kind_of` found


def register(kind: ControllerKind) -> ControllerKind:
    KINDS[kind.name] = kind
    _by_type.clear()
    return kind


def kind_of(module: nn.Module) -> ControllerKind:
    """The kind that drives `module`: the most specific one that matches its type, or the user's own."""
    found = _by_type.get(type(module))
    if found is None:
        pairs = ((kind, base) for base in type(module).__mro__ for kind in KINDS.values() if base is not nn.Module)
        found = next((kind for kind, base in pairs if base in (kind.module, kind.twin)), KINDS["own"])
        if not torch.compiler.is_compiling():
            _by_type[type(module)] = found
    return found


def any_hook_that_counts(hooks: dict[int, Any]) -> bool:
    """Whether any hook is more than torchinfo's, which would show T rows of parts instead of one of the model."""
    return any(not str(getattr(hook, "__module__", "")).startswith("torchinfo.") for hook in hooks.values())


def why_changed(name: str, module: nn.Module, kind: type[nn.Module]) -> str | None:
    """The reason why `model.<name>` has to be called and cannot be read; None when it is a plain `kind`."""
    if not isinstance(module, kind):
        return f"{name} is a {type(module).__name__}, not an nn.{kind.__name__}"
    if type(module).forward is not kind.forward or "forward" in module.__dict__:
        return f"{name} has a forward of its own"
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    if any(map(any_hook_that_counts, hooks)) or torch_module._has_any_global_hook():
        return f"{name} has hooks"
    return None


def why_changed_linear(name: str, module: nn.Module) -> str | None:
    """Why a linear layer has to be called as a module; None when its weights can be read."""
    reason = why_changed(name, module, nn.Linear)
    return f"{name} has no bias" if reason is None and module.bias is None else reason
