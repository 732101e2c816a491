"""The compiled core (csrc/bindings). Its classes and functions come in pairs, for float32 and float64.

Arrays are C-contiguous NumPy arrays of exactly the type that is named here, or after `use_tensors` tensors of it, which
`outputs` and the steps then give too; nothing is converted. T steps, B batch,
I inputs, H hidden, N rows, W width, R heads, K reads per head, F numbers of an interface vector, G blocks of a cell's
weights (4 for lstm, 3 for gru). A wrong argument is a ValueError or a TypeError that says so.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

Floats32: TypeAlias = NDArray[np.float32]
Floats64: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
ShortRows: TypeAlias = NDArray[np.int32]

class Cell(Enum):
    none = 0
    lstm = 1
    gru = 2

class Similarity(Enum):
    cosine = 0
    euclidean = 1
    dot = 2

class IndexSettings:
    def __init__(
        self,
        kind: str,
        numbers: dict[str, int],
        exact_until: int = 0,
        exact_until_coded: int = 0,
        exact_until_short: int = 0,
    ) -> None: ...

class Sizes:
    """The frozen description of a memory; `index` None searches exactly."""

    def __init__(
        self,
        rows: int,
        width: int,
        heads: int,
        k: int,
        similarity: Similarity,
        delta: float,
        k_links: int = 0,
        link_gradients: bool = False,
        free_usage: bool = False,
        index: IndexSettings | None = None,
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def similarity(self) -> Similarity: ...
    @property
    def delta(self) -> float: ...
    @property
    def k_links(self) -> int: ...
    @property
    def link_gradients(self) -> bool: ...
    @property
    def free_usage(self) -> bool: ...
    @property
    def index(self) -> IndexSettings | None: ...
    @property
    def interface_size(self) -> int:
        """F."""
    def interface_fields(self) -> list[tuple[str, int, int]]:
        """Name, offset and size of every field of an interface vector."""

class Parts32(TypedDict, total=False):
    """What a memory holds. The links are there with K_L > 0, usage with free usage."""

    rows: Rows  # that were written, in the order of their first write
    words: Floats32  # (n, W)
    recency: Rows  # rows of the ring that were accessed, least recently first
    link_ids: Rows  # N(i,.) is 2i, P(i,.) is 2i+1, p is 2N
    link_columns: ShortRows  # (n, K_L), -1 for none
    link_weights: Floats32
    usage_rows: Rows
    usage: Floats32

class Parts64(TypedDict, total=False):
    rows: Rows
    words: Floats64
    recency: Rows
    link_ids: Rows
    link_columns: ShortRows
    link_weights: Floats64
    usage_rows: Rows
    usage: Floats64

class Initial32:
    """Words (N, W) that memories start from, copied once and shared."""

    def __init__(self, words: Floats32) -> None: ...
    def equals(self, words: Floats32) -> bool: ...
    @property
    def indexes(self) -> int: ...

class Initial64:
    def __init__(self, words: Floats64) -> None: ...
    def equals(self, words: Floats64) -> bool: ...
    @property
    def indexes(self) -> int: ...

class Versions32:
    """The versions of a batch as one object."""

    def __len__(self) -> int: ...
    def __getitem__(self, b: int) -> Version32: ...

class Versions64:
    def __len__(self) -> int: ...
    def __getitem__(self, b: int) -> Version64: ...

class Version32:
    """One version of one memory. While another thread works on that memory, whatever reads is a RuntimeError."""

    @staticmethod
    def fresh(sizes: Sizes, initial: Initial32 | None = None) -> Version32: ...
    @staticmethod
    def restored(sizes: Sizes, initial: Initial32 | None, parts: Parts32) -> Version32: ...
    def export(self) -> Parts32: ...
    def copied(self) -> Version32: ...
    def written_rows(self) -> tuple[Rows, Floats32]:
        """Rows, ascending, and their words."""
    def recency(self) -> list[int]: ...
    def link_rows(self) -> tuple[Rows, ShortRows, Floats32]: ...
    def usage_rows(self) -> tuple[Rows, Floats32]: ...
    def candidates(self, query: Floats32) -> list[int]: ...
    @property
    def is_current(self) -> bool: ...
    @property
    def indexed(self) -> int: ...
    @property
    def index_used(self) -> str: ...

class Version64:
    @staticmethod
    def fresh(sizes: Sizes, initial: Initial64 | None = None) -> Version64: ...
    @staticmethod
    def restored(sizes: Sizes, initial: Initial64 | None, parts: Parts64) -> Version64: ...
    def export(self) -> Parts64: ...
    def copied(self) -> Version64: ...
    def written_rows(self) -> tuple[Rows, Floats64]: ...
    def recency(self) -> list[int]: ...
    def link_rows(self) -> tuple[Rows, ShortRows, Floats64]: ...
    def usage_rows(self) -> tuple[Rows, Floats64]: ...
    def candidates(self, query: Floats64) -> list[int]: ...
    @property
    def is_current(self) -> bool: ...
    @property
    def indexed(self) -> int: ...
    @property
    def index_used(self) -> str: ...

class Record32:
    """What a forward pass puts out, and keeps for one backward pass."""

    @property
    def joint(self) -> Floats32:
        """(T, B, H+RW): [h_t, r_t], zero past an element's length."""
    @property
    def hidden(self) -> Floats32 | None:
        """(B, H)"""
    @property
    def cell(self) -> Floats32 | None:
        """(B, H)"""
    @property
    def read(self) -> Floats32:
        """(B, R, W)"""
    @property
    def rows(self) -> Rows:
        """(B, R, K), -1 for none"""
    @property
    def weights(self) -> Floats32:
        """(B, R, K)"""
    @property
    def trace(self) -> tuple[ShortRows, Floats32, ShortRows, Floats32] | None:
        """Rows and weights read (T, B, R, K), rows and weights written (T, B, R, K+1)."""
    @property
    def before(self) -> list[Version32]: ...
    @property
    def after(self) -> list[Version32]: ...
    @property
    def versions_before(self) -> Versions32: ...
    @property
    def versions_after(self) -> Versions32: ...
    def outputs(self) -> tuple[Any, ...]:
        """Joint, hidden, cell, read, weights and rows."""
    @property
    def bytes(self) -> int: ...

class Record64:
    @property
    def joint(self) -> Floats64: ...
    @property
    def hidden(self) -> Floats64 | None: ...
    @property
    def cell(self) -> Floats64 | None: ...
    @property
    def read(self) -> Floats64: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def weights(self) -> Floats64: ...
    @property
    def trace(self) -> tuple[ShortRows, Floats64, ShortRows, Floats64] | None: ...
    @property
    def before(self) -> list[Version64]: ...
    @property
    def after(self) -> list[Version64]: ...
    @property
    def versions_before(self) -> Versions64: ...
    @property
    def versions_after(self) -> Versions64: ...
    def outputs(self) -> tuple[Any, ...]:
        """Joint, hidden, cell, read, weights and rows."""
    @property
    def bytes(self) -> int: ...

class Gradients32:
    """None for what there is not. `memory_at` (2, n): batch elements and rows; `links_at` (3, n): with columns too."""

    @property
    def x(self) -> Floats32 | None: ...
    @property
    def w_ih(self) -> Floats32 | None: ...
    @property
    def w_hh(self) -> Floats32 | None: ...
    @property
    def b_ih(self) -> Floats32 | None: ...
    @property
    def b_hh(self) -> Floats32 | None: ...
    @property
    def w_interface(self) -> Floats32 | None: ...
    @property
    def b_interface(self) -> Floats32 | None: ...
    @property
    def hidden(self) -> Floats32 | None: ...
    @property
    def cell(self) -> Floats32 | None: ...
    @property
    def read(self) -> Floats32: ...
    @property
    def weights(self) -> Floats32: ...
    def outputs(self) -> tuple[Any, ...]:
        """In the order of the arguments of `forward`, from x to weights0."""
    @property
    def memory_at(self) -> Rows | None: ...
    @property
    def memory_words(self) -> Floats32 | None: ...
    @property
    def links_at(self) -> Rows | None: ...
    @property
    def links_values(self) -> Floats32 | None: ...

class Gradients64:
    @property
    def x(self) -> Floats64 | None: ...
    @property
    def w_ih(self) -> Floats64 | None: ...
    @property
    def w_hh(self) -> Floats64 | None: ...
    @property
    def b_ih(self) -> Floats64 | None: ...
    @property
    def b_hh(self) -> Floats64 | None: ...
    @property
    def w_interface(self) -> Floats64 | None: ...
    @property
    def b_interface(self) -> Floats64 | None: ...
    @property
    def hidden(self) -> Floats64 | None: ...
    @property
    def cell(self) -> Floats64 | None: ...
    @property
    def read(self) -> Floats64: ...
    @property
    def weights(self) -> Floats64: ...
    def outputs(self) -> tuple[Any, ...]:
        """In the order of the arguments of `forward`, from x to weights0."""
    @property
    def memory_at(self) -> Rows | None: ...
    @property
    def memory_words(self) -> Floats64 | None: ...
    @property
    def links_at(self) -> Rows | None: ...
    @property
    def links_values(self) -> Floats64 | None: ...

def forward32(
    sizes: Sizes,
    cell: Cell,
    hidden: int,
    x: Floats32,
    w_ih: Floats32 | None,
    w_hh: Floats32 | None,
    b_ih: Floats32 | None,
    b_hh: Floats32 | None,
    w_interface: Floats32 | None,
    b_interface: Floats32 | None,
    h0: Floats32 | None,
    c0: Floats32 | None,
    read0: Floats32,
    rows0: Rows,
    weights0: Floats32,
    lengths: Rows | None,
    versions: Sequence[Version32] | Versions32,
    record: bool,
    trace: bool,
    threads: int,
) -> Record32:
    """A whole sequence: x (T, B, I), or for Cell.none the interface before its activation (T, B, F)."""

def forward64(
    sizes: Sizes,
    cell: Cell,
    hidden: int,
    x: Floats64,
    w_ih: Floats64 | None,
    w_hh: Floats64 | None,
    b_ih: Floats64 | None,
    b_hh: Floats64 | None,
    w_interface: Floats64 | None,
    b_interface: Floats64 | None,
    h0: Floats64 | None,
    c0: Floats64 | None,
    read0: Floats64,
    rows0: Rows,
    weights0: Floats64,
    lengths: Rows | None,
    versions: Sequence[Version64] | Versions64,
    record: bool,
    trace: bool,
    threads: int,
) -> Record64: ...
def backward32(
    record: Record32,
    x: Floats32 | None,
    w_ih: Floats32 | None,
    w_hh: Floats32 | None,
    b_ih: Floats32 | None,
    b_hh: Floats32 | None,
    w_interface: Floats32 | None,
    b_interface: Floats32 | None,
    d_joint: Floats32 | None,
    d_hidden: Floats32 | None,
    d_cell: Floats32 | None,
    d_read: Floats32 | None,
    d_weights: Floats32 | None,
    memory_at: Rows | None,
    memory_words: Floats32 | None,
    link_at: Rows | None,
    link_values: Floats32 | None,
    needs_x: bool,
    threads: int,
    needs_memory: bool = True,
    pending: Pending32 | None = None,
    source: Pending32 | None = None,
    pass_number: int = 0,
) -> Gradients32:
    """Once per record; a second time is a RuntimeError. None stands for a gradient of zero.

    `pending` holds what later calls left of the gradient of the memories after this one; that of the memories before it
    goes to `source` where there is one, under the number of the backward pass, and else into the result.
    """

def backward64(
    record: Record64,
    x: Floats64 | None,
    w_ih: Floats64 | None,
    w_hh: Floats64 | None,
    b_ih: Floats64 | None,
    b_hh: Floats64 | None,
    w_interface: Floats64 | None,
    b_interface: Floats64 | None,
    d_joint: Floats64 | None,
    d_hidden: Floats64 | None,
    d_cell: Floats64 | None,
    d_read: Floats64 | None,
    d_weights: Floats64 | None,
    memory_at: Rows | None,
    memory_words: Floats64 | None,
    link_at: Rows | None,
    link_values: Floats64 | None,
    needs_x: bool,
    threads: int,
    needs_memory: bool = True,
    pending: Pending64 | None = None,
    source: Pending64 | None = None,
    pass_number: int = 0,
) -> Gradients64: ...

class Pending32:
    """Gradients of the memories that a call left, on their way from later calls to that one."""

    def __init__(self) -> None: ...
    def __len__(self) -> int:
        """Backward passes that left something and have not fetched it."""

class Pending64:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...

def step32(
    sizes: Sizes,
    x: Floats32,
    rows0: Rows,
    weights0: Floats32,
    versions: Sequence[Version32] | Versions32,
    record: bool,
    threads: int,
) -> tuple[Record32, Any, Any, Any, Versions32]:
    """One step without a controller, x (B, F): the record, read, rows, weights, and the versions after it."""

def step64(
    sizes: Sizes,
    x: Floats64,
    rows0: Rows,
    weights0: Floats64,
    versions: Sequence[Version64] | Versions64,
    record: bool,
    threads: int,
) -> tuple[Record64, Any, Any, Any, Versions64]: ...
def step_backward32(
    record: Record32,
    d_read: Floats32 | None,
    d_weights: Floats32 | None,
    memory_at: Rows | None,
    memory_words: Floats32 | None,
    link_at: Rows | None,
    link_values: Floats32 | None,
    needs_memory: bool,
    pending: Pending32 | None,
    source: Pending32 | None,
    pass_number: int,
    threads: int,
) -> tuple[Any, Any, Rows | None, Floats32 | None, Rows | None, Floats32 | None]:
    """Of x and of weights0; of the memory and of the links, where and what."""

def step_backward64(
    record: Record64,
    d_read: Floats64 | None,
    d_weights: Floats64 | None,
    memory_at: Rows | None,
    memory_words: Floats64 | None,
    link_at: Rows | None,
    link_values: Floats64 | None,
    needs_memory: bool,
    pending: Pending64 | None,
    source: Pending64 | None,
    pass_number: int,
    threads: int,
) -> tuple[Any, Any, Rows | None, Floats64 | None, Rows | None, Floats64 | None]: ...
def linear32(a: Floats32, w: Floats32, bias: Floats32 | None, threads: int) -> Floats32:
    """a w^T + bias for a (rows, depth) and w (n, depth)."""

def linear64(a: Floats64, w: Floats64, bias: Floats64 | None, threads: int) -> Floats64: ...
def linear_back32(a: Floats32, w: Floats32, threads: int) -> Floats32:
    """a w for a (rows, n) and w (n, depth): the gradient of a linear layer's input."""

def linear_back64(a: Floats64, w: Floats64, threads: int) -> Floats64: ...
def tall32(a: Floats32, b: Floats32, threads: int) -> Floats32:
    """a^T b for a (rows, m) and b (rows, n): the gradient of a linear layer's weight."""

def tall64(a: Floats64, b: Floats64, threads: int) -> Floats64: ...
def rmsprop32(
    parameters: Floats32,
    gradients: Floats32,
    squares: Floats32,
    velocity: Floats32,
    clip: float,
    decay: float,
    momentum: float,
    epsilon: float,
    rate: float,
    threads: int,
) -> float:
    """A step of RMSProp along the clipped gradient, in place, and the norm before it was clipped."""

def rmsprop64(
    parameters: Floats64,
    gradients: Floats64,
    squares: Floats64,
    velocity: Floats64,
    clip: float,
    decay: float,
    momentum: float,
    epsilon: float,
    rate: float,
    threads: int,
) -> float: ...
def row_product(
    a: Floats32 | Floats64,
    w: Floats32 | Floats64,
    bias: Floats32 | Floats64 | None,
    forward: bool,
    out: Floats32 | Floats64,
    threads: int,
) -> None:
    """`linear` into `out`, or with forward=False `linear_back`."""

def tall_product(a: Floats32 | Floats64, b: Floats32 | Floats64, out: Floats32 | Floats64, threads: int) -> None: ...

class Ring:
    """The least-recently-accessed ring by itself, for tests."""

    def __init__(self, rows: int) -> None: ...
    def first(self, count: int) -> list[int]: ...
    def move_to_back(self, row: int) -> int: ...
    def undo(self, row: int, before: int) -> None: ...
    def recency(self) -> list[int]: ...

class ArrayIndex:
    """An index over an array (N, W) that the caller keeps in step with it, for tests and benchmarks."""

    def __init__(self, words: Floats32, settings: IndexSettings) -> None: ...
    def insert(self, row: int) -> None: ...
    def update(self, row: int) -> None: ...
    def remove(self, row: int) -> None: ...
    def clear(self) -> None: ...
    def build(self, rows: ShortRows, threads: int = 1) -> None: ...
    def freeze(self, threads: int = 1) -> None: ...
    def query(self, query: Floats32) -> list[int]: ...
    def nearest(self, queries: Floats32, at_once: int = 1) -> list[int]: ...
    def churn(self, rows: ShortRows) -> None: ...
    def update_all(self, rows: ShortRows) -> None: ...
    def contains(self, row: int) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def rebuilds(self) -> int: ...
    @property
    def bytes(self) -> int: ...

def use_tensors(type: Any, capsule: Any) -> bool:
    """Take tensors of this type, by the capsule of DLPack's C exchange API; False where it is none that is known."""

def use_openmp_runtime(path: str) -> bool: ...
def selected_isa() -> str: ...
