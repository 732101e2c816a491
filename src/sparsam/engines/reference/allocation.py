"""Dynamic memory allocation of the DNC (Graves 2016, Methods): which words are free, and where to write next."""

from __future__ import annotations

from torch import Tensor


def retention(free_gates: Tensor, read_weights: Tensor) -> Tensor:
    """psi_t = prod_r (1 - f_r w^R_{t-1,r}), (B, N): how much of each word stays; free gates f (B, R)."""
    return (1 - free_gates[..., None] * read_weights).prod(dim=1)


def dnc_usage(usage: Tensor, write_weights: Tensor, retained: Tensor) -> Tensor:
    """u_t = (u_{t-1} + w^W_{t-1} - u_{t-1} w^W_{t-1}) psi_t with `retention` psi_t, all (B, N)."""
    return (usage + write_weights - usage * write_weights) * retained


def allocation_weights(usage: Tensor) -> Tensor:
    """a(phi_j) = (1 - u(phi_j)) prod_{i<j} u(phi_i), phi the rows in ascending order of usage (B, N).

    The order is a constant for the gradient, ties in it go to the lowest row; the rest is differentiated.
    """
    ascending, order = usage.sort(dim=-1, stable=True)
    before = ascending.cumprod(dim=-1).roll(1, dims=-1).clone()
    before[:, 0] = 1.0
    return (1 - ascending).mul(before).gather(-1, order.argsort(dim=-1))
