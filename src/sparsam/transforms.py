"""What torch wraps around tensors: the transforms of torch.func, forward-mode derivatives, fake tensors.

Below them a tensor may have no numbers to look at, and a derivative written by hand does not apply.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad


def under_torch_func() -> bool:
    """Whether a transform of torch.func (vmap, grad, jvp and the like) runs."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def exporting() -> bool:
    """Whether `torch.export` traces; older versions of torch cannot tell."""
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def needs_plain_operations() -> bool:
    """Whether torch's own operations have to run in place of an `autograd.Function`, which knows no transform."""
    if torch.compiler.is_compiling():
        return exporting()  # an exported program may not write to an `out`
    return under_torch_func() or forward_ad._current_level >= 0


def autocasts(value: Tensor) -> bool:
    """Whether autocast is on where this tensor is; torch refuses to say for the device meta."""
    return not value.is_meta and torch.is_autocast_enabled(value.device.type)


def has_tangent(value: Tensor | None) -> bool:
    """Whether forward-mode derivatives flow through this tensor."""
    return forward_ad._current_level >= 0 and value is not None and forward_ad.unpack_dual(value).tangent is not None


def is_batched(value: Tensor | None) -> bool:
    """Whether it is several gradients in one, of `torch.autograd.grad(..., is_grads_batched=True)`."""
    if value is None or torch.compiler.is_compiling():
        return False
    return torch._C._functorch.is_legacy_batchedtensor(value)


def is_fake(value: Tensor) -> bool:
    """Whether it is a placeholder of `FakeTensorMode`, with a shape and no numbers."""
    return type(value) is not Tensor and isinstance(value, FakeTensor)


def has_numbers(value: Tensor) -> bool:
    """Whether a program may depend on the numbers of this tensor: not in a graph, not under vmap, not a fake one."""
    if torch.compiler.is_compiling() or is_fake(value) or value.is_meta:
        return False
    return not (under_torch_func() and torch._C._functorch.is_functorch_wrapped_tensor(value))
