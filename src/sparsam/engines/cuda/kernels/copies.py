"""Copies that take one launch: an LSTM's weights transposed, memories that elements share, and what a step changed."""

import triton
import triton.language as tl


@triton.jit
def _transposed(source, stride, into, width, row, column, rows, columns):
    """into(row, column) = source(column, row), for blocks of both."""
    value = tl.load(
        source + column[:, None] * stride + row[None, :],
        mask=(column < columns)[:, None] & (row < rows)[None, :],
        other=0.0,
    )
    there = (row < rows)[:, None] & (column < width)[None, :]
    tl.store(into + row[:, None] * width + column[None, :], tl.trans(value), mask=there)


@triton.jit(do_not_specialize=["inputs"])
def pack(
    hidden,  # (4 H, H)
    read,  # (4 H, I + R W)
    interface,  # (F, H)
    recurrent,  # (J, 4 H): of h, then of r
    interface_matrix,  # (H, FS), blank from F on
    inputs,  # I
    H: tl.constexpr,
    J: tl.constexpr,
    F: tl.constexpr,
    FS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """An LSTM's weights as the forward kernel streams them, side by side."""
    UNITS: tl.constexpr = 4 * H
    OF_HIDDEN: tl.constexpr = (H + BLOCK - 1) // BLOCK
    at = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    if at < OF_HIDDEN:
        row = at * BLOCK + tl.arange(0, BLOCK)
        _transposed(hidden, H, recurrent, UNITS, row, column, H, UNITS)
        _transposed(interface, H, interface_matrix, FS, row, column, H, F)
    else:
        row = (at - OF_HIDDEN) * BLOCK + tl.arange(0, BLOCK)
        _transposed(read + inputs, inputs + J - H, recurrent + H * UNITS, UNITS, row, column, J - H, UNITS)


@triton.jit
def spread(
    values,  # (count,)
    copies,  # (B, count)
    count,
    B,
    BLOCK: tl.constexpr,
):
    """The same numbers for every element, each read once."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = i < count
    value = tl.load(values + i, mask=there)
    b = 0
    while b < B:
        tl.store(copies + i, value, mask=there)
        copies += count
        b += 1


@triton.jit
def blank_rows(
    matrix,  # (B, M, W)
    rows,  # (T or T + 1, B, X) int32, -1 for none
    lengths,  # (B,) int32
    later,  # 1 where `rows` has one step more than the element
    B,
    M,
    W: tl.constexpr,
    WP: tl.constexpr,
    X: tl.constexpr,
):
    """Zeros in those rows of an element that its steps name; one program to a step and element."""
    t = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, WP)
    if t < tl.load(lengths + b) + later:
        row = tl.load(rows + (t.to(tl.int64) * B + b) * X + tl.arange(0, X))
        there = ((row >= 0) & (row < M))[:, None] & (column < W)[None, :]
        place = matrix + (b * M + row)[:, None] * W + column[None, :]
        tl.store(place, tl.zeros([X, WP], matrix.dtype.element_ty), mask=there)


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
    """What one step changed of a memory, carried over to buffers that hold what was before it; a program per element.

    A step touches the rows read before it, those read in it and those written anew.
    """
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
