"""Limits on what flows backward from step to step, for runs that are called step by step.

    |d[h_{t-1}, r_{t-1}]| <= c max_{s >= t} |g_s|,   number by number,

where g_s is the gradient that [h_s, r_s] got from outside: from the output y_s, and at the last step from the final
state. Graves (2013) clipped what flows backward to fixed bounds; these follow the scale of the loss, so that sum
and mean over a batch are limited alike. The gradients of the words, of the read weights and of c are not limited. The
native engine (csrc/step/backward_clip.h) and the GPU engine do the same inside their loops.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def backward_limits(times: float, steps: int, joint: Tensor | None, final: list[Tensor]) -> Tensor | None:
    """Limits (T, B) from gradients of [h, r] (T, B, H + R·W) and of what is there of the final state (B, ...).

    None where there are none of these. Where they are all zero nothing is limited.
    """
    found = [value.detach().abs().flatten(1).amax(dim=1).expand(steps, -1) for value in final]
    if joint is not None:
        found.append(joint.detach().abs().amax(dim=-1).flip(0).cummax(dim=0).values.flip(0))
    if not found:
        return None
    largest = torch.stack(found).amax(dim=0)
    return torch.where(largest > 0, times * largest, torch.inf)


class BackwardClip:
    """The limits of one run over T steps, known once its backward pass begins."""

    def __init__(self, times: float, steps: int) -> None:
        self.times, self.steps = times, steps
        self.limits: Tensor | None = None  # (T, B); None while nothing came from outside

    def carried(self, state: Any, t: int) -> Any:
        """The state before step t, as the controller is given it."""
        names = [name for name in ("hidden", "read") if getattr(state, name) is not None]
        return state.with_fields(**{name: Limited.apply(getattr(state, name), self, t) for name in names})

    def given_out(self, joint: Tensor, state: Any) -> tuple[Tensor, Any]:
        """[h, r] (T, B, H + R·W) and the final state, whose gradients set the limits."""
        joint, hidden, read = Measured.apply(joint, state.hidden, state.read, self)
        fields = {"read": read} if hidden is None else {"hidden": hidden, "read": read}
        return joint, state.with_fields(**fields)


class Limited(torch.autograd.Function):
    """The identity; its gradient is limited."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, clip: BackwardClip, t: int) -> Tensor:
        ctx.clip, ctx.t = clip, t
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        limits = ctx.clip.limits
        if limits is not None:
            most = limits[ctx.t].to(gradient.dtype).view(-1, *[1] * (gradient.dim() - 1))
            gradient = torch.minimum(torch.maximum(gradient, -most), most)
        return gradient, None, None


class Measured(torch.autograd.Function):
    """The identity of what a run puts out; the gradients that come back are noted."""

    @staticmethod
    def forward(ctx: Any, joint: Tensor, hidden: Tensor | None, read: Tensor, clip: BackwardClip) -> tuple[Any, ...]:
        ctx.clip, ctx.there = clip, hidden is not None
        ctx.set_materialize_grads(False)
        return joint.view_as(joint), None if hidden is None else hidden.view_as(hidden), read.view_as(read)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        joint, *final = gradients
        clip = ctx.clip
        clip.limits = backward_limits(clip.times, clip.steps, joint, [value for value in final if value is not None])
        return (*gradients, None)
