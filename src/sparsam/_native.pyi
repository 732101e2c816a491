"""The compiled core (csrc/bindings). Its classes and functions come in pairs, for float32 and float64.

What a pair has in common is declared once, under a name with an underscore that the module itself does not have.

Arrays are C-contiguous NumPy arrays of exactly the type that is named here, or after `use_tensors` tensors of it, which
`outputs` then gives too; nothing is converted. T steps, B batch, I inputs, H hidden, N rows, W width,
R heads, K reads per head, F numbers of an interface vector, G blocks of a controller's weights (4 for lstm, 3 for
gru). A wrong argument is a ValueError or a TypeError that says so.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Single: TypeAlias = np.float32
Double: TypeAlias = np.float64
Rows: TypeAlias = NDArray[np.int64]
ShortRows: TypeAlias = NDArray[np.int32]
Result: TypeAlias = NDArray[Any] | Tensor | None  # as numbers are given back, by `use_tensors`
F = TypeVar("F", np.float32, np.float64)
G = TypeVar("G", np.float32, np.float64, contravariant=True)

memories: tuple[str, ...]
controllers: tuple[str, ...]

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
        erase: bool = False,
    ) -> None: ...
    rows: int
    width: int
    heads: int
    k: int
    similarity: Similarity
    delta: float
    k_links: int
    link_gradients: bool
    free_usage: bool
    erase: bool
    index: IndexSettings | None
    @property
    def interface_size(self) -> int:
        """F."""
    def interface_fields(self) -> list[tuple[str, int, int]]:
        """Name, offset and size of every field of an interface vector."""

class _Parts(TypedDict, Generic[F], total=False):
    """What a memory holds. The links are there with K_L > 0, usage with free usage."""

    rows: Rows  # that were written, in the order of their first write
    words: NDArray[F]  # (n, W)
    recency: Rows  # rows of the ring that were accessed, least recently first
    link_ids: Rows  # N(i,.) is 2i, P(i,.) is 2i+1, p is 2N
    link_columns: ShortRows  # (n, K_L), -1 for none
    link_weights: NDArray[F]
    usage_rows: Rows
    usage: NDArray[F]

class _Initial(Generic[F]):
    """Words (N, W) that memories start from, copied once and shared."""

    def __init__(self, words: NDArray[F]) -> None: ...
    def equals(self, words: NDArray[F]) -> bool: ...
    @property
    def words(self) -> NDArray[F]: ...
    @property
    def indexes(self) -> int: ...

class Initial32(_Initial[Single]): ...
class Initial64(_Initial[Double]): ...

class _Version(Generic[F]):
    """One version of one memory. While another thread works on that memory, whatever reads is a RuntimeError."""

    @staticmethod
    def fresh(sizes: Sizes, initial: _Initial[F] | None = None) -> _Version[F]: ...
    @staticmethod
    def restored(sizes: Sizes, initial: _Initial[F] | None, parts: _Parts[F]) -> _Version[F]: ...
    def export(self, names: list[str] | None = None) -> _Parts[F]:
        """All, or the arrays of some of "words", "ring", "links" and "usage"."""
    def copied(self) -> _Version[F]: ...
    def candidates(self, query: NDArray[F]) -> list[int]: ...
    @property
    def is_current(self) -> bool: ...
    @property
    def indexed(self) -> int: ...
    @property
    def index_used(self) -> str: ...

class Version32(_Version[Single]): ...
class Version64(_Version[Double]): ...

class _Versions(Generic[F]):
    """The versions of a batch as one object."""

    def __len__(self) -> int: ...
    def __getitem__(self, b: int) -> _Version[F]: ...

class Versions32(_Versions[Single]): ...
class Versions64(_Versions[Double]): ...

class _Record(Generic[F]):
    """What a forward pass puts out, and keeps for one backward pass."""

    @property
    def trace(self) -> tuple[ShortRows, NDArray[F], ShortRows, NDArray[F]] | None:
        """Rows and weights read (T, B, R, K), rows and weights written (T, B, R, K+1)."""
    @property
    def before(self) -> list[_Version[F]]: ...
    @property
    def after(self) -> list[_Version[F]]: ...
    @property
    def versions_before(self) -> _Versions[F]: ...
    def outputs(self) -> tuple[Result, ...]:
        """Joint (T, B, H+RW), which is [h_t, r_t], or with an output layer y (T, B, O), zero past an element's length;
        hidden and cell (B, H), read (B, R, W), weights and rows (B, R, K), -1 for none; and the versions after."""
    @property
    def bytes(self) -> int: ...

class Record32(_Record[Single]): ...
class Record64(_Record[Double]): ...

class _Gradients(Generic[F]):
    """None for what there is not. `memory_at` (2, n): batch elements and rows; `links_at` (3, n): with columns too."""

    def outputs(self) -> tuple[Result, ...]:
        """In the order of the arguments of `forward`, from x to weights0; then memory_at, memory_words, links_at and
        links_values."""

class Gradients32(_Gradients[Single]): ...
class Gradients64(_Gradients[Double]): ...

class _Pending(Generic[F]):
    """Gradients of the memories that a call left, on their way from later calls to that one."""

    def __init__(self) -> None: ...
    def __len__(self) -> int:
        """Backward passes that left something and have not fetched it."""

class Pending32(_Pending[Single]): ...
class Pending64(_Pending[Double]): ...

class _Forward(Protocol[F]):
    def __call__(
        self,
        sizes: Sizes,
        memory: str,  # one of `memories`
        controller: str,  # one of `controllers`
        hidden: int,
        x: NDArray[F],
        w_ih: NDArray[F] | None,
        w_hh: NDArray[F] | None,
        b_ih: NDArray[F] | None,
        b_hh: NDArray[F] | None,
        w_interface: NDArray[F] | None,
        b_interface: NDArray[F] | None,
        w_output: NDArray[F] | None,
        b_output: NDArray[F] | None,
        h0: NDArray[F] | None,
        c0: NDArray[F] | None,
        read0: NDArray[F] | None,  # None without a controller
        weights0: NDArray[F],
        rows0: Rows,
        lengths: Rows | None,
        versions: Sequence[_Version[F] | None] | _Versions[F],  # None for a blank memory
        record: bool,
        trace: bool,
        threads: int,
    ) -> _Record[F]:
        """A whole sequence: x (T, B, I), or for controller "none" the interface before its activation (T, B, F). With
        an output layer, (O, H+RW) and (O,), y is put out in place of [h_t, r_t]."""

forward32: _Forward[Single]
forward64: _Forward[Double]

class _Backward(Protocol[F]):
    def __call__(
        self,
        record: _Record[F],
        x: NDArray[F] | None,
        w_ih: NDArray[F] | None,
        w_hh: NDArray[F] | None,
        b_ih: NDArray[F] | None,
        b_hh: NDArray[F] | None,
        w_interface: NDArray[F] | None,
        b_interface: NDArray[F] | None,
        w_output: NDArray[F] | None,
        b_output: NDArray[F] | None,
        d_joint: NDArray[F] | None,
        d_hidden: NDArray[F] | None,
        d_cell: NDArray[F] | None,
        d_read: NDArray[F] | None,
        d_weights: NDArray[F] | None,
        memory_at: Rows | None,
        memory_words: NDArray[F] | None,
        link_at: Rows | None,
        link_values: NDArray[F] | None,
        needs_x: bool,
        threads: int,
        needs_memory: bool = True,
        pending: _Pending[F] | None = None,
        source: _Pending[F] | None = None,
        pass_number: int = 0,
        clip: float = 0.0,
    ) -> _Gradients[F]:
        """Once per record; a second time is a RuntimeError. None stands for a gradient of zero.

        `pending` holds what later calls left of the gradient of the memories after this one; that of the memories
        before it goes to `source` where there is one, under the number of the backward pass, and else into the result.
        """

backward32: _Backward[Single]
backward64: _Backward[Double]

class _Convolve(Protocol):
    def __call__(self, window: Any, x: Any, weight: Any, bias: Any, threads: int) -> Any:
        """out_t = bias + sum_j weight[:, j] * in_{t+j}, `in` being window (B, taps - 1, D), then x (T, B, D)."""

class _ConvolveBackward(Protocol):
    def __call__(self, window: Any, x: Any, weight: Any, d_out: Any, threads: int) -> tuple[Any, Any, Any, Any]:
        """The gradients of window, x, weight (D, taps) and bias (D)."""

convolve32: _Convolve
convolve64: _Convolve
convolve_backward32: _ConvolveBackward
convolve_backward64: _ConvolveBackward

class _Linear(Protocol):
    def __call__(self, a: Any, b: Any, weight: Any, bias: Any, threads: int) -> Any:
        """[a, b] weight^T + bias for the rows of a (n, D_a) and of b (n, D_b) or None."""

class _LinearBackward(Protocol):
    def __call__(
        self,
        a: Any,
        b: Any,
        weight: Any,
        d_out: Any,
        needs_a: bool,
        needs_b: bool,
        needs_weight: bool,
        threads: int,
    ) -> tuple[Any, Any, Any, Any]:
        """The gradients of a, b, weight (O, D_a + D_b) and bias (O); None where nobody asks for one."""

linear32: _Linear
linear64: _Linear
linear_backward32: _LinearBackward
linear_backward64: _LinearBackward

class ArrayIndex:
    """An index over an array (N, W) that the caller keeps in step with it, for tests and benchmarks."""

    def __init__(self, words: NDArray[Single], settings: IndexSettings) -> None: ...
    def insert(self, row: int) -> None: ...
    def update(self, row: int) -> None: ...
    def remove(self, row: int) -> None: ...
    def clear(self) -> None: ...
    def build(self, rows: ShortRows, threads: int = 1) -> None: ...
    def freeze(self, threads: int = 1) -> None: ...
    def start(self, steps: int, threads: int = 1) -> None: ...
    def query(self, query: NDArray[Single]) -> list[int]: ...
    def nearest(self, queries: NDArray[Single], at_once: int = 1) -> list[int]: ...
    def churn(self, rows: ShortRows) -> None: ...
    def update_all(self, rows: ShortRows) -> None: ...
    def contains(self, row: int) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def rebuilds(self) -> int: ...
    @property
    def bytes(self) -> int: ...

def use_tensors(type: type[Tensor], capsule: object) -> bool:
    """Take tensors of this type, by the capsule of DLPack's C exchange API; False where it is none that is known."""

def use_openmp_runtime(path: str) -> bool: ...
def selected_isa() -> str: ...
