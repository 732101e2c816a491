"""All parameters of a model as one vector, and all gradients as another.

One vector makes the optimiser a handful of large operations instead of a handful per parameter, a gradient
exchange between processes one message, and parameters shared between processes one buffer. The model keeps
working as before: its parameters (and their `.grad`) become views of the vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_ALIGN = 16  # floats; every parameter starts on a cache line, as a tensor of its own would


class FlatParameters:
    """`parameters` is a leaf vector whose `.grad` is `gradients`; `extra` are spare slots behind the gradients for
    numbers that travel with them."""

    def __init__(self, model: nn.Module, vector: Tensor | None = None, extra: int = 3) -> None:
        tensors = [p for p in model.parameters() if p.requires_grad]
        if not tensors:
            raise ValueError("model has no parameters to train")
        if len({(p.dtype, p.device) for p in tensors}) > 1:
            raise ValueError("model: expected all parameters in one dtype and on one device, got several")
        sizes = [-(-p.numel() // _ALIGN) * _ALIGN for p in tensors]
        total = sum(sizes)
        first = tensors[0]
        fresh = vector is None
        if vector is None:
            vector = torch.zeros(total, dtype=first.dtype, device=first.device)
        elif vector.shape != (total,):
            raise ValueError(f"vector: expected shape ({total},), got {tuple(vector.shape)}")
        self.exchange = torch.zeros(total + extra, dtype=first.dtype, device=first.device)
        self.gradients = self.exchange[:total]
        self.extra = self.exchange[total:]
        self.parameters = vector
        self.parameters.grad = self.gradients
        self._views: list[tuple[nn.Parameter, Tensor]] = []
        offset = 0
        with torch.no_grad():
            for parameter, size in zip(tensors, sizes, strict=True):
                span = slice(offset, offset + parameter.numel())
                value = vector[span].view_as(parameter)
                if fresh:
                    value.copy_(parameter)
                parameter.data = value
                parameter.grad = self.gradients[span].view_as(parameter)
                self._views.append((parameter, parameter.grad))
                offset += size

    def zero(self) -> None:
        """Gradients to zero, in place; views that were dropped (`zero_grad`) are put back."""
        self.exchange.zero_()
        for parameter, view in self._views:
            if parameter.grad is not view:
                parameter.grad = view
