"""A linear recurrence with the delta rule (DeltaNet; Yang et al. 2024), in plain torch.

Each head holds a matrix S (d x d) that maps keys to values. A step replaces what S holds under its key by its value, as
far as its gate b says, and reads with its query:

    S_t = S_(t-1) + b_t k_t (v_t - S_(t-1)^T k_t)^T,   o_t = S_t^T q_t,   |k_t| = |q_t| = 1

The state has a fixed size, so recall is limited to about d pairs a head. With `negative` the gate reaches 2: then a
step can reflect S and not only shrink it, without which a linear recurrence cannot track a parity (Grazzi et al. 2024).

`delta_steps` is the definition, a loop over time; `delta_chunks` is what runs (the WY form of the paper): the same
numbers with one step of the loop for each chunk of the sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsam.lab.recipes.baselines.convolution import ShortConvolution


def delta_steps(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """o (..., T, d) and the last S (..., d, d), given q, k, v (..., T, d), gate (..., T) and the first S."""
    s, reads = start, []
    for t in range(q.shape[-2]):
        key, value = k[..., t, :], v[..., t, :]
        held = (s * key.unsqueeze(-1)).sum(-2)
        s = s + gate[..., t, None, None] * key.unsqueeze(-1) * (value - held).unsqueeze(-2)
        reads.append((s * q[..., t, :].unsqueeze(-1)).sum(-2))
    return torch.stack(reads, -2), s


def delta_chunks(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, start: Tensor, size: int = 64) -> tuple[Tensor, Tensor]:
    """`delta_steps`, chunk by chunk.

    Within a chunk that starts from S, the rows u_t = b_t (v_t - S_(t-1)^T k_t) solve the triangular system
    (I + tril(diag(b) K K^T, -1)) U = diag(b) (V - K S); then O = Q S + tril(Q K^T) U and S <- S + K^T U.
    """
    steps = q.shape[-2]
    size = min(size, steps)
    padding = -steps % size  # steps with a gate of 0 change nothing
    q, k, v = (F.pad(part, (0, 0, 0, padding)).unflatten(-2, (-1, size)) for part in (q, k, v))
    gate = F.pad(gate, (0, padding)).unflatten(-1, (-1, size)).unsqueeze(-1)
    gated = gate * k
    system = torch.tril(gated @ k.mT, -1) + torch.eye(size, dtype=q.dtype, device=q.device)
    solved = torch.linalg.solve_triangular(system, torch.cat([gate * v, gated], -1), upper=False, unitriangular=True)
    from_values, from_keys = solved.split([v.shape[-1], k.shape[-1]], -1)
    scores = torch.tril(q @ k.mT)
    s, reads = start, []
    for chunk in range(q.shape[-3]):
        rows = from_values[..., chunk, :, :] - from_keys[..., chunk, :, :] @ s
        reads.append(q[..., chunk, :, :] @ s + scores[..., chunk, :, :] @ rows)
        s = s + k[..., chunk, :, :].mT @ rows
    return torch.stack(reads, -3).flatten(-3, -2)[..., :steps, :], s


class DeltaState(NamedTuple):
    """S (B, heads, d, d), and the convolution's last inputs."""

    memory: Tensor
    recent: Tensor


class DeltaRule(nn.Module):
    """Heads of the delta rule over a short convolution of the input."""

    def __init__(self, width: int, num_heads: int = 4, conv: int = 4, negative: bool = False) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"num_heads: expected a divisor of the width {width}, got {num_heads}")
        self.num_heads, self.largest_gate = num_heads, 2.0 if negative else 1.0
        self.conv = ShortConvolution(width, conv)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, num_heads)
        self.norm = nn.RMSNorm(width // num_heads)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, state: DeltaState | None = None) -> tuple[Tensor, DeltaState]:
        mixed, recent = self.conv(x, None if state is None else state.recent)
        heads = F.silu(self.project(mixed)).unflatten(-1, (3, self.num_heads, -1))
        queries, keys, values = heads.permute(2, 1, 3, 0, 4)  # (B, heads, T, d) each
        queries, keys = F.normalize(queries, dim=-1), F.normalize(keys, dim=-1)
        gate = self.largest_gate * torch.sigmoid(self.gate(mixed)).permute(1, 2, 0)
        width = queries.shape[-1]
        start = x.new_zeros(*queries.shape[:2], width, width) if state is None else state.memory
        read, memory = delta_chunks(queries, keys, values, gate, start)
        y = self.output(self.norm(read).permute(2, 0, 1, 3).flatten(2))
        return y, DeltaState(memory, recent)
