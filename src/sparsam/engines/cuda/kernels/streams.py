"""What one step changed of a memory, carried over to the buffers that still hold what was before that step."""

import triton
import triton.language as tl


@triton.jit
def _carry(words, new_words, last_access, new_last_access, row, W: tl.constexpr, WP: tl.constexpr):
    """Words and stamps at rows (X), -1 for none."""
    column = tl.arange(0, WP)[None, :]
    there = row >= 0
    place = row[:, None] * W + column
    mask = there[:, None] & (column < W)
    tl.store(new_words + place, tl.load(words + place, mask=mask, other=0.0), mask=mask)
    tl.store(new_last_access + row, tl.load(last_access + row, mask=there, other=0), mask=there)


@triton.jit(do_not_specialize=["M", "queue_size"])
def catch_up(
    words,  # after the step
    last_access,
    counters,
    queue_rows,
    queue_stamps,
    read_rows,  # (B, R, K) int64
    unused,  # (B, RP) the rows that it wrote anew
    new_words,  # before it
    new_last_access,
    new_counters,
    new_queue_rows,
    new_queue_stamps,
    new_read_rows,
    M,
    queue_size,
    R: tl.constexpr,
    K: tl.constexpr,
    W: tl.constexpr,
    RP: tl.constexpr,
    WP: tl.constexpr,
    READS: tl.constexpr,  # powers of two that hold R K reads, and all accesses of a step
    ACCESSES: tl.constexpr,
):
    """One program per element. A step touches the rows read before it, those read in it and those written anew."""
    b = tl.program_id(0).to(tl.int64)
    words += b * M * W
    new_words += b * M * W
    last_access += b * M
    new_last_access += b * M
    read = tl.arange(0, READS)
    is_read = read < R * K
    head = tl.arange(0, RP)
    row = tl.load(new_read_rows + b * R * K + read, mask=is_read, other=-1).to(tl.int32)
    _carry(words, new_words, last_access, new_last_access, row, W, WP)
    row = tl.load(read_rows + b * R * K + read, mask=is_read, other=-1).to(tl.int32)
    _carry(words, new_words, last_access, new_last_access, row, W, WP)
    row = tl.load(unused + b * RP + head, mask=head < R, other=-1)
    _carry(words, new_words, last_access, new_last_access, row, W, WP)
    place = tl.load(new_counters + b * 8 + 4) + tl.arange(0, ACCESSES)  # entries of the queue that it added
    there = place < tl.load(counters + b * 8 + 4)
    place += b * queue_size
    tl.store(new_queue_rows + place, tl.load(queue_rows + place, mask=there, other=0), mask=there)
    tl.store(new_queue_stamps + place, tl.load(queue_stamps + place, mask=there, other=0), mask=there)
    tl.debug_barrier()
    count = tl.arange(0, 8)
    tl.store(new_counters + b * 8 + count, tl.load(counters + b * 8 + count))
