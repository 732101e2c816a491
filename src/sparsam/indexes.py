"""How the K most similar words are found: exact search, or an approximate index with its settings.

These classes hold settings only. The structures live in the native core (csrc/), which keeps them in step with every
write; they are never differentiated, and what they propose is always scored exactly.

A further kind of index is a dataclass whose fields are its settings, with `candidates` for the reference, or with one
C++ class (csrc/index/candidate_index.h) and a line in `make_index` (csrc/index/index_kinds.h): docs/extending.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from sparsam import checks

LARGEST = 2**31 - 1  # the core counts rows and checks in 32 bits


class Thresholds(NamedTuple):
    """With more words than this an approximate index is faster than exact search (docs/notebook/search.md)."""

    scored: int  # where exact search scores every word
    coded: int  # where it looks at codes of 8 bits first: written words, cosine similarity, AVX-512 VNNI
    short: int  # there, in a call that is too short to put the words into cells


CROSSOVER = 3_000
CODED = 15  # times as many words, for an index without cells


@dataclass(frozen=True)
class Index:
    """Base of all index settings."""

    name: ClassVar[str] = ""  # what `index="..."` takes
    kind: ClassVar[str] = ""  # what the core calls it; empty for exact search
    words_per_check: ClassVar[int] = 0  # that exact search scores in the time of a check

    @property
    def plan(self) -> str:
        """What answers a search, in words."""
        return self.name

    @property
    def pays_from(self) -> Thresholds:
        """Where it begins to be faster than exact search; more checks take longer."""
        scored = max(CROSSOVER, self.words_per_check * getattr(self, "checks", 0))
        return Thresholds(scored, CODED * scored, CODED * scored)

    def candidates(self, query: Tensor, words: Tensor) -> Tensor | None:
        """Which words (B, R, N) the reference scores for queries (B, R, W) among words (B, N, W); None for all."""
        raise NotImplementedError(f"{self}: its structure is in the native core")


NAMES: dict[str, type[Index]] = {}  # by name, filled where an index is defined


def register(index: type[Index]) -> type[Index]:
    NAMES[index.name] = index
    return index


@register
@dataclass(frozen=True)
class Linear(Index):
    """Exact search over every word that differs from a blank one."""

    name: ClassVar[str] = "linear"

    def candidates(self, query: Tensor, words: Tensor) -> Tensor | None:
        return None


def _check(index: Index, **highest: int) -> None:
    """Every setting named is an int from 1 to its highest value; `seed` is one of 0 .. 2^63 - 1."""
    for name, high in highest.items():
        value = checks.positive_int(name, getattr(index, name))
        if value > high:
            raise ValueError(f"{name}: expected an int in 1..{high}, got {value}")
    if hasattr(index, "seed"):
        _check_from_0(index, "seed", 2**63 - 1, "2**63 - 1")


def _check_from_0(index: Index, name: str, high: int, shown: str = "") -> None:
    value = getattr(index, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an int, got {type(value).__name__} {value!r}")
    if not 0 <= value <= high:
        raise ValueError(f"{name}: expected an int in 0..{shown or high}, got {value}")


@register
@dataclass(frozen=True)
class Scan(Index):
    """A scan of every word in four bits a component; the best by estimated score are scored exactly.

    On words of trained models it finds at least 0.95 of the true K (`docs/notebook/search.md`), including words far
    from the query, which hashes and trees miss. The result depends on the words, their rows, the seed and the query,
    and in a long call on when words were sorted into cells.

    Large memories are sorted into cells: a pre-loaded memory of 65,536 words or more, and 200,000 or more written words
    in a call of at least 2,048 steps. A query reads the cells near it, and those words of other cells that may be as
    similar: a few per cent of them.

    Args:
        checks: the most words scored per query; a memory of no more words than this is searched exactly.
        reach: how far a word may lie from the centre of its cell towards the query, in hundredths for words of width
            32 (for other widths it scales with one over the square root). A larger value reads more words and finds
            more; 0 reads all of them.
        cells_from: the number of written words from which a long call sorts them into cells.
        seed: random seed of the rotation before coding and of the sample that estimates the words' centre.
    """

    name: ClassVar[str] = "scan"
    kind: ClassVar[str] = "scan"
    words_per_check: ClassVar[int] = 30
    checks: int = 96
    reach: int = 58
    cells_from: int = 200_000
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self, checks=LARGEST, cells_from=LARGEST)
        _check_from_0(self, "reach", 100)

    @property
    def pays_from(self) -> Thresholds:
        scored = super().pays_from.scored
        return Thresholds(scored, max(scored, 200_000), max(scored, 600_000))


@register
@dataclass(frozen=True)
class KDForest(Index):
    """An ensemble of randomized k-d trees, searched best bin first with one budget over all trees.

    The defaults are for training with the forest, as the paper did: a curriculum reaches level 4,096 with 128 checks,
    where the paper's 32 fail. More checks find more (`docs/howto/search.md`).

    Args:
        trees: number of trees, each in axes of its own.
        checks: leaves visited, and the most words scored, per query; with no more words than this, all are scored.
        leaf: words in a leaf before it is split.
        seed: random seed of the trees' axes.
    """

    name: ClassVar[str] = "kdtree"
    kind: ClassVar[str] = "kdtree"
    words_per_check: ClassVar[int] = 80
    trees: int = 4
    checks: int = 128
    leaf: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self, trees=32, checks=LARGEST, leaf=7)


@register
@dataclass(frozen=True)
class LSH(Index):
    """Locality-sensitive hashing: signs of random projections, in several tables.

    The defaults are for training with hashing, as the paper did: they read a few buckets, in microseconds, and find
    words near the query. A curriculum reaches level 4,096 with them. More probes and checks find more
    (`docs/howto/search.md`).

    Args:
        tables: number of hash tables.
        bits: the most bits in a key; 0 for as many as suit the size of the memory.
        probes: buckets read per query, over all tables.
        checks: the most words scored per query; with no more words than this, all are scored.
        few: with no more words than this there are no tables: every query is compared with the sketches of all words.
        seed: random seed of the projections.
    """

    name: ClassVar[str] = "lsh"
    kind: ClassVar[str] = "lsh"
    words_per_check: ClassVar[int] = 40
    tables: int = 4
    bits: int = 0
    probes: int = 48
    checks: int = 32
    few: int = 8_192
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self, tables=32, probes=2**20, checks=LARGEST, few=LARGEST)
        _check_from_0(self, "bits", 24)


@register
@dataclass(frozen=True)
class Auto(Index):
    """Exact search while there are few words, then an approximate index; it may switch inside a sequence.

    Args:
        index: the approximate index.
        exact_until: the most words that are searched exactly; None for the point from which the index was measured to
            be faster. For a scan that is 3,000 words. On processors with fast products of bytes it is 200,000 written
            words in a call of 2,048 steps or more, and 600,000 in a shorter one.
    """

    name: ClassVar[str] = "auto"
    index: Index = field(default_factory=Scan)
    exact_until: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.index, Index) or not self.index.kind:
            raise TypeError(f"index: expected an approximate index such as Scan(), got {self.index!r}")
        if self.exact_until is not None:
            _check(self, exact_until=LARGEST)

    @property
    def thresholds(self) -> Thresholds:
        if self.exact_until is not None:
            return Thresholds(*[self.exact_until] * 3)
        return self.index.pays_from

    @property
    def plan(self) -> str:
        until = self.thresholds
        span = f"{until.coded:,}" + (f" to {until.short:,}" if until.short != until.coded else "")
        coded = f" ({span} where codes are searched)" if until.coded != until.scored else ""
        return f"linear up to {until.scored:,} words{coded}, then {self.index.plan}"


def resolve(index: Any) -> Index:
    if isinstance(index, Index):
        return index
    if not isinstance(index, str):
        raise TypeError(f"index: expected a name or an Index, got {type(index).__name__}")
    return NAMES[checks.one_of("index", index, NAMES)]()


def is_exact(index: Index) -> bool:
    return isinstance(index, Linear)


def is_plain(index: Index) -> bool:
    """Whether the reference can search so."""
    return type(index).candidates is not Index.candidates
