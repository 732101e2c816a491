"""Whether a module is still what its class says, so that an engine may use its weights without calling it.

What a user changed is honoured: a module with hooks, another `forward` or another class is called as a module.
Parametrizations (weight norm) need no call: they are seen wherever the weight is read.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module


def any_that_counts(hooks: dict[int, Any]) -> bool:
    """Whether any hook is more than torchinfo's, which would show T rows of parts instead of one of the model."""
    return any(not str(getattr(hook, "__module__", "")).startswith("torchinfo.") for hook in hooks.values())


def why_touched(name: str, module: nn.Module, kind: type[nn.Module]) -> str | None:
    """The reason why `model.<name>` has to be called and cannot be read; None when it is a plain `kind`."""
    if not isinstance(module, kind):
        return f"{name} is a {type(module).__name__}, not an nn.{kind.__name__}"
    if type(module).forward is not kind.forward or "forward" in module.__dict__:
        return f"{name} has a forward of its own"
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    if any(map(any_that_counts, hooks)) or torch_module._has_any_global_hook():
        return f"{name} has hooks"
    return None


def untouched_linear(name: str, module: nn.Module) -> str | None:
    """Why a linear layer has to be called as a module; None when its weights can be read."""
    reason = why_touched(name, module, nn.Linear)
    return f"{name} has no bias" if reason is None and module.bias is None else reason
