"""The DNC's dynamic allocation (Graves 2016, Methods) and its gradient, by one program for all words of an element.

a(phi_j) = (1 - u(phi_j)) prod_{i<j} u(phi_i), phi the rows in ascending order of usage, ties to the lowest row. Sorting
is by ranks: every row is compared with every other, and the usage goes through memory to its place.
"""

import triton
import triton.language as tl


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _then(a, b, next_a, next_b):
    """t -> b + a t, and after it t -> next_b + next_a t."""
    return a * next_a, next_b + next_a * b


@triton.jit
def _ranks(used, N: tl.constexpr, NP: tl.constexpr):
    """The place (NP) of every row in ascending order of usage (NP)."""
    n = tl.arange(0, NP)
    used = tl.where(n < N, used, float("inf"))
    first = (used[:, None] < used[None, :]) | ((used[:, None] == used[None, :]) & (n[:, None] < n[None, :]))
    return tl.sum(first.to(tl.int32), 0)


@triton.jit
def _ascending(used, scratch, N: tl.constexpr, NP: tl.constexpr):
    """Ranks, usage in ascending order, and the product of all usage before each, all (NP)."""
    n = tl.arange(0, NP)
    rank = _ranks(used, N, NP)
    tl.store(scratch + rank, used, mask=n < N)
    tl.debug_barrier()
    ascending = tl.load(scratch + n, mask=n < N, other=1.0)
    one_before = tl.load(scratch + n - 1, mask=(n > 0) & (n < N), other=1.0)
    return rank, ascending, tl.associative_scan(one_before, 0, _times)


@triton.jit
def allocation(used, scratch, N: tl.constexpr, NP: tl.constexpr):
    """a (NP) for usage u (NP); `scratch` has room for 2 N numbers."""
    n = tl.arange(0, NP)
    rank, ascending, before = _ascending(used, scratch, N, NP)
    tl.store(scratch + N + n, (1 - ascending) * before, mask=n < N)
    tl.debug_barrier()
    return tl.load(scratch + N + rank, mask=n < N, other=0.0)


@triton.jit
def allocation_gradient(gradient, used, scratch, N: tl.constexpr, NP: tl.constexpr):
    """du (NP) for the gradient g of a, with everything in ascending order and E(i) = prod_{j<i} u(j):

    du(i) = E(i) (tail(i) - g(i)),   tail(i) = (1 - u(i+1)) g(i+1) + u(i+1) tail(i+1).   No factor is divided by.
    """
    n = tl.arange(0, NP)
    rank, _, before = _ascending(used, scratch, N, NP)
    tl.store(scratch + N + rank, gradient, mask=n < N)
    tl.debug_barrier()
    own = tl.load(scratch + N + n, mask=n < N, other=0.0)
    i = N - 1 - n  # from the last on
    later = (i >= 0) & (i + 1 < N)
    factor = tl.load(scratch + i + 1, mask=later, other=0.0)
    given = tl.load(scratch + N + i + 1, mask=later, other=0.0)
    _, tail = tl.associative_scan((factor, (1 - factor) * given), 0, _then)
    tl.debug_barrier()
    tl.store(scratch + i, tail, mask=i >= 0)
    tl.debug_barrier()
    found = before * (tl.load(scratch + n, mask=n < N, other=0.0) - own)
    tl.debug_barrier()
    tl.store(scratch + n, found, mask=n < N)
    tl.debug_barrier()
    return tl.load(scratch + rank, mask=n < N, other=0.0)
