"""Least recently accessed rows: rows never accessed, in row order, then a queue whose entries go out of date.

A row's last access is its stamp, 0 for none. The queue holds (row, stamp) in the order of the accesses; an entry counts
when it bears the row's newest stamp. Rows that were never accessed need no entry: no row before the frontier is one.
"""

import triton
import triton.language as tl


@triton.jit
def least_recent(
    queue_rows, queue_stamps, last_access, unused, frontier, head, tail, M, R: tl.constexpr, BLOCK: tl.constexpr
):
    """Writes the first R rows in ring order to `unused`; returns the new frontier and the new head of the queue."""
    found = 0
    at = frontier
    while (found < R) & (at < M):
        row = at + tl.arange(0, BLOCK)
        there = row < M
        counts = (tl.load(last_access + row, mask=there, other=1) == 0).to(tl.int32)
        rank = found + tl.cumsum(counts, 0) - counts
        tl.store(unused + rank, row, mask=(counts > 0) & (rank < R))
        if found == 0:  # nothing before the first row that counts is ever asked for again
            frontier = tl.min(tl.where(counts > 0, row, tl.minimum(at + BLOCK, M)), 0)
        found += tl.sum(counts, 0)
        at += BLOCK
    at = head
    while found < R:
        place = at + tl.arange(0, BLOCK)
        there = place < tail
        row = tl.load(queue_rows + place, mask=there, other=0)
        stamp = tl.load(queue_stamps + place, mask=there, other=-1)
        counts = (there & (tl.load(last_access + row, mask=there, other=-2) == stamp)).to(tl.int32)
        rank = found + tl.cumsum(counts, 0) - counts
        tl.store(unused + rank, row, mask=(counts > 0) & (rank < R))
        if found == 0:
            head = tl.min(tl.where(counts > 0, place, tl.minimum(at + BLOCK, tail)), 0)
        found += tl.sum(counts, 0)
        at += BLOCK
    return frontier, head


@triton.jit
def touch(
    row,  # (X) accesses of a step, -1 for none
    weight,  # (X)
    delta,
    now,  # the stamp of this step
    queue_rows,
    queue_stamps,
    last_access,
    tail,
):
    """Moves the rows whose weights sum to more than `delta` to the back, in ascending order; returns the new tail."""
    size: tl.constexpr = row.shape[0]
    place = tl.arange(0, size)
    same = (row[:, None] == row[None, :]) & (row >= 0)[:, None]
    total = tl.sum(tl.where(same, weight[None, :], 0.0), 1)
    again = tl.sum((same & (place[None, :] < place[:, None])).to(tl.int32), 1)
    accessed = (row >= 0) & (total > delta) & (again == 0)
    # The rank of a row among the accessed ones: a row that is none stands above all.
    order = tl.where(accessed, row, 2**31 - 1)
    rank = tl.sum((order[None, :] < order[:, None]).to(tl.int32), 1)
    tl.store(queue_rows + tail + rank, row, mask=accessed)
    tl.store(queue_stamps + tail + rank, now + tl.zeros_like(row), mask=accessed)
    tl.store(last_access + row, now + tl.zeros_like(row), mask=accessed)
    return tail + tl.sum(accessed.to(tl.int32), 0)
