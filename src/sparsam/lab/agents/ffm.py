"""Fast and Forgetful Memory (Morad, Kortvelesy, Liwicki and Prorok, NeurIPS 2023), in plain PyTorch.

    x~_t = l1(x_t) * sigmoid(l2(x_t))                    (input gate)
    S_t  = gamma * S_{t-1} + x~_t 1^T,   gamma_jk = exp(-|alpha_j|) exp(-i omega_k)        (m x c complex numbers)
    z_t  = l3([Re S_t, Im S_t])
    y_t  = norm(z_t) * sigmoid(l4(x_t)) + l5(x_t) * (1 - sigmoid(l4(x_t)))

At first the m traces fall to 1% after 1 to 1,024 steps, and the c contexts turn with periods of 1 to 1,024 steps.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

_LONGEST = 1024
_LEFT = 0.01  # of a trace at the end of its time


class FFM(nn.Module):
    """(T, B, I) -> (T, B, O), with a state of m c complex numbers as (B, 2 m c) real ones."""

    def __init__(self, inputs: int, outputs: int, traces: int, contexts: int = 4) -> None:
        super().__init__()
        self.traces, self.contexts = traces, contexts
        self.alpha = nn.Parameter(-math.log(_LEFT) / torch.linspace(1, _LONGEST, traces))
        self.omega = nn.Parameter(2 * math.pi / torch.linspace(1, _LONGEST, contexts))
        self.into, self.into_gate = nn.Linear(inputs, traces), nn.Linear(inputs, traces)
        self.mix = nn.Linear(2 * traces * contexts, outputs)
        self.norm = nn.LayerNorm(outputs, elementwise_affine=False)
        self.out_gate, self.beside = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    @property
    def state_size(self) -> int:
        return 2 * self.traces * self.contexts

    def forward(self, x: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """y (T, B, O) and the state after it; `begins` (T, B) is where the memory is empty again."""
        fading = torch.exp(-self.alpha.abs())[:, None].expand(-1, self.contexts)
        gamma = torch.polar(fading, -self.omega.expand(self.traces, -1))
        gated = self.into(x) * torch.sigmoid(self.into_gate(x))
        added = torch.complex(gated, torch.zeros_like(gated))[..., None].expand(*gated.shape, self.contexts)
        kept = torch.where(begins[..., None, None], torch.zeros((), dtype=gamma.dtype), gamma)
        before = torch.view_as_complex(state.view(x.shape[1], self.traces, self.contexts, 2))
        added = torch.cat([added[:1] + kept[:1] * before, added[1:]])
        states = Scan.apply(kept, added)
        z = self.norm(self.mix(torch.view_as_real(states).flatten(2)))
        gate = torch.sigmoid(self.out_gate(x))
        return z * gate + self.beside(x) * (1 - gate), torch.view_as_real(states[-1]).flatten(1)


class Scan(torch.autograd.Function):
    """s_t = kept_t s_{t-1} + added_t for all t, with s_{-1} = 0: a node of the graph, not one for each step."""

    @staticmethod
    def forward(ctx: Any, kept: Tensor, added: Tensor) -> Tensor:
        states = added.clone()
        for t in range(1, len(states)):
            states[t].addcmul_(kept[t], states[t - 1])
        ctx.save_for_backward(kept, states)
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        kept, states = ctx.saved_tensors
        grad, turned = grads[0].clone(), kept.conj().resolve_conj()
        for t in reversed(range(len(states) - 1)):
            grad[t].addcmul_(turned[t + 1], grad[t + 1])
        to_kept = torch.zeros_like(kept)
        torch.mul(grad[1:], states[:-1].conj(), out=to_kept[1:])
        return to_kept, grad
