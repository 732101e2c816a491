"""`allocation="free"` of the SDNC: the DNC's usage and free gates, with only the R least used words written anew.

The paper (section D) says of the DNC's dynamic allocation that a version of it 'avoiding any O(N) operations by using a
heap' is possible, and leaves it out. Here usage is a vector; `csrc/memory/usage_heap.h` is the heap.
Rules that both follow:

1. Usage u is 0 at the start. A step first frees what it lets go of: u(i) <- u(i) prod_h (1 - f_h w^R_{t-1,h}(i)), where
   a read weight counts as at most 1 (those that follow links may be more). Only rows read in the step before change.
2. The R rows of least usage, ties to the lowest row, are the u_h of this step, least first; each is erased.
3. A word takes what it has room for: w^W_h = alpha_h (gamma_h w^R_{t-1,h} + (1 - gamma_h) (1 - u(u_h)) 1[u_h]).
4. At the end of the step u(i) <- u(i) + w(i) - u(i) w(i), held within [0, 1], with w the write weights averaged over
   the heads, as for the links.
5. Usage that is no more than 16 times the smallest normal number is 0, so that the rows never used and those that a
   saturated gate used or freed tell apart the same way in any arithmetic.

The usage that a step starts from and the rows that it selects are constants for the gradient. Within the step the room
1 - u(u_h) is differentiated with respect to the free gates and the previous read weights: this is how free gates learn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.engines.reference.allocation import retention


def freed(usage: Tensor, free_gates: Tensor, read_rows: Tensor, read_weights: Tensor) -> Tensor:
    """Rule 1: u (B, N) after free gates f (B, R) and the previous reads (B, R, K), rows of -1 for none."""
    weights = read_weights.clamp_max(1.0) * (read_rows >= 0)
    read = weights.new_zeros(*weights.shape[:2], usage.shape[-1]).scatter_add(-1, read_rows.clamp_min(0), weights)
    return without_traces(usage * retention(free_gates, read))


def room(usage: Tensor, rows: Tensor) -> Tensor:
    """1 - u(u_h), (B, R), at rows u (B, R)."""
    return 1 - usage.gather(1, rows)


def filled(usage: Tensor, written: Tensor) -> Tensor:
    """Rule 4: u (B, N) after averaged write weights w (B, N). A constant for the steps that follow."""
    usage, written = usage.detach(), written.detach()
    return without_traces((usage + written - usage * written).clamp(0.0, 1.0))


def without_traces(usage: Tensor) -> Tensor:
    """Rule 5: u (B, N) with usage too small to tell from 0 set to 0."""
    return torch.where(usage > 16 * torch.finfo(usage.dtype).tiny, usage, 0.0)
