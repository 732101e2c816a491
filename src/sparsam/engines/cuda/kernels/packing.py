"""An LSTM's weights as the forward kernel streams them, transposed side by side in one launch."""

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
