"""The memory of a state of the native engine: handles to versions of buffers that the core writes in place.

A buffer is written in place, yet a state is a value: each state refers to its own version of the buffer, and the core
brings the buffer back to whichever version is asked for (csrc/memory/timeline.h). In the autograd graph a tensor
without storage stands for the memory (`placeholders.py`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines.native import names, placeholders
from sparsam.engines.native.core import initial_words
from sparsam.engines.native.core import native as _native
from sparsam.memories.description import SparseSizes
from sparsam.state import DenseMemory

DTYPES = (torch.float32, torch.float64)
HALF = (torch.bfloat16, torch.float16)  # of parameters; the engine computes and holds float32 for them


class Kind(NamedTuple):
    """What the memories of a batch have in common."""

    rows: int  # N
    width: int  # W
    k_links: int  # K_L, 0 for a memory without links
    allocation: str  # "ring" or "free"
    dtype: torch.dtype

    @classmethod
    def of(cls, sizes: SparseSizes, dtype: torch.dtype) -> Kind:
        return cls(sizes.rows, sizes.width, sizes.k_links, sizes.allocation, dtype)

    def text(self) -> str:
        """As an operator and a file take it: nothing that a graph would have to escape."""
        return f'[{self.rows},{self.width},{self.k_links},"{self.allocation}","float{self.suffix}"]'

    @classmethod
    def of_text(cls, text: str) -> Kind:
        *sizes, dtype = json.loads(text)
        return cls._make((*sizes, getattr(torch, dtype)))

    @property
    def suffix(self) -> str:
        return "32" if self.dtype == torch.float32 else "64"

    @functools.lru_cache(maxsize=64)  # noqa: B019, a kind is a value
    def core(self) -> Any:
        """The core's description of such a memory; how it is read plays no part in what it holds."""
        cosine, free = _native.Similarity.cosine, self.allocation == "free"
        return _native.Sizes(self.rows, self.width, 1, 1, cosine, 0.0, self.k_links, free_usage=free)


class NativeMemory:
    """Versions of the memories of a batch, None for one that no call has touched yet.

    A version holds words and ring, and the links too where the model has them; with `allocation` "free" it holds
    usage, and the ring is left alone. `origins` are the starting memories as the core keeps them, None for blank.

    Compiled and exported graphs know a memory by its `name` (`names.py`); what they return has nothing else.
    """

    engine = "native"

    def __init__(
        self,
        kind: Kind,
        versions: Any,
        origins: list[Any] | None,
        placeholder: Tensor | None = None,
        name: Tensor | None = None,
        pending: Any = None,
    ) -> None:
        self.kind, self._versions, self._origins, self._placeholder = kind, versions, origins, placeholder
        self.pending = pending  # where a later call leaves the gradient for that which `placeholder` comes from
        self.name, self._by_name = name, versions is None
        if name is None and names.TABLE.in_use:
            self.named()

    @property
    def versions(self) -> list[Any]:
        """One for each batch element; what the core gave as one object, taken apart."""
        if self._versions is None:
            self._versions, self._origins = names.named_memory(self.name)  # type: ignore[arg-type]
        return self._versions if type(self._versions) is list else list(self._versions)

    @property
    def origins(self) -> list[Any]:
        if self._versions is None:
            self._versions, self._origins = names.named_memory(self.name)  # type: ignore[arg-type]
        return self._origins  # type: ignore[return-value]

    @property
    def from_compiled(self) -> bool:
        """Whether its gradient goes into a compiled graph that put it out."""
        return self._by_name and self.name is not None and self.name.requires_grad

    @property
    def placeholder(self) -> Tensor | None:
        """What stands for the memory in the graph of eager calls; None where it is a constant."""
        if self._placeholder is None and self._by_name and self.from_compiled:
            with torch.enable_grad():  # it is kept, for calls with gradients too
                self._placeholder = names.FromName.apply(self.name, self.kind.dtype, self.shape)
        return self._placeholder

    @placeholder.setter
    def placeholder(self, placeholder: Tensor | None) -> None:
        self._placeholder, self.name, self.pending = placeholder, None, None
        if names.TABLE.in_use:
            self.named()

    def named(self) -> Tensor:
        """The memory's name, made now where it has none."""
        if self.name is None:
            self.name = names.memory_name(self._versions, self._origins, self._placeholder)  # type: ignore[arg-type]
        return self.name

    @property
    def shape(self) -> tuple[int, int, int]:
        batch = len(self._origins) if self.name is None else self.name.shape[0]  # type: ignore[arg-type]
        return batch, self.kind.rows, self.kind.width

    def __getattr__(self, name: str) -> Any:
        """Sizes, type and allocation are those of the kind."""
        if name in Kind._fields:
            return getattr(self.kind, name)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def describe(self) -> str:
        rows, width = self.kind.rows, self.kind.width
        touched = sum(version is not None for version in self.versions)
        name = str(self.kind.dtype).removeprefix("torch.")
        return f"native memory of ({len(self.versions)}, {rows}, {width}) {name}, {touched} touched"

    def check(self, kind: Kind) -> None:
        ours = self.kind
        if ours.k_links != kind.k_links:
            raise ValueError(f"state: expected links with K_L = {kind.k_links}, got K_L = {ours.k_links}")
        if ours.allocation != kind.allocation:
            raise ValueError(f"state: expected one of allocation={kind.allocation!r}, got one of {ours.allocation!r}")
        if ours[:2] != kind[:2]:
            raise ValueError(f"state: expected a memory (N, W) = {kind[:2]}, got {ours[:2]}")

    def for_call(self) -> Any:
        """What a call of the core takes: versions, or None where it makes a blank one itself."""
        blank = type(self._versions) is list and self._origins is not None and not any(self._origins)
        return self._versions if blank else self.materialised()

    def materialised(self) -> Any:
        """A version for every batch element.

        Blank ones are made anew at each call, so a fresh state is reusable. The core copies what elements share.
        """
        if self._versions is not None and type(self._versions) is not list:
            return self._versions  # as the core gave them
        return [self._version(b) for b in range(len(self.versions))] if None in self.versions else self.versions

    def _version(self, b: int) -> Any:
        version = self.versions[b]
        if version is not None:
            return version
        return getattr(_native, f"Version{self.kind.suffix}").fresh(self.kind.core(), self.origins[b])

    def advanced(self, versions: Any, placeholder: Tensor | None, pending: Any = None) -> NativeMemory:
        origins = self.origins if self._origins is None else self._origins
        return NativeMemory(self.kind, versions, origins, placeholder, None, None if placeholder is None else pending)

    def detach(self) -> NativeMemory:
        name = None if self.name is None else self.name.detach()
        return NativeMemory(self.kind, self._versions, self._origins, None, name)

    def clone(self) -> NativeMemory:
        return self.advanced([None if v is None else v.copied() for v in self.versions], self.placeholder, self.pending)

    def blend(self, mask: Tensor, other: NativeMemory) -> NativeMemory:
        if torch.compiler.is_compiling():
            from sparsam.engines.native import operators

            return operators.traced_choice(mask, other, self)
        taken = mask.tolist()
        versions = [theirs if take else ours for take, ours, theirs in zip(taken, self.versions, other.versions)]
        origins = [theirs if take else ours for take, ours, theirs in zip(taken, self.origins, other.origins)]
        return NativeMemory(
            self.kind, versions, origins, placeholders.chosen(mask, other.placeholder, self.placeholder)
        )

    def select(self, index: Tensor) -> NativeMemory:
        at = index.tolist()
        placeholder = placeholders.selected(self.placeholder, index)
        return NativeMemory(self.kind, [self.versions[b] for b in at], [self.origins[b] for b in at], placeholder)

    @classmethod
    def cat(cls, stores: Sequence[NativeMemory]) -> NativeMemory:
        kinds = {store.kind for store in stores}
        if len(kinds) > 1:
            raise ValueError(
                f"states: expected memories of one kind, got {', '.join(map(str, sorted(kinds, key=str)))}"
            )
        placeholder = placeholders.joined(
            [store.placeholder for store in stores], [len(store.versions) for store in stores]
        )
        versions = [version for store in stores for version in store.versions]
        return cls(stores[0].kind, versions, [origin for store in stores for origin in store.origins], placeholder)

    @property
    def index_used(self) -> tuple[str, ...]:
        return tuple("linear" if version is None else version.index_used for version in self.versions)

    def changed_rows(self, b: int) -> tuple[Tensor, Tensor]:
        rows, words = self._written(b)
        differs = (words != self._origin_words(b, rows)).any(dim=-1)
        return rows[differs], words[differs]

    def _start(self) -> Tensor:
        """M_0 (B, N, W); where the batch shares it, a view of one memory."""
        batch, rows, width = self.shape
        if all(origin is None for origin in self.origins):
            return torch.zeros(1, 1, 1, dtype=self.kind.dtype, device="cpu").expand(batch, rows, width)
        if all(origin is self.origins[0] for origin in self.origins):
            return torch.from_numpy(self.origins[0].words(None)).expand(batch, rows, width)
        every = torch.arange(rows, device="cpu")
        return torch.stack([self._origin_words(b, every) for b in range(batch)])

    def _origin_words(self, b: int, rows: Tensor) -> Tensor:
        if self.origins[b] is None:
            return torch.zeros(len(rows), self.kind.width, dtype=self.kind.dtype, device="cpu")
        return torch.from_numpy(self.origins[b].words(rows.numpy()))

    def _part(self, b: int, name: str) -> list[Tensor]:
        """The arrays of one part of element b: "words", "ring", "links" or "usage"."""
        return [torch.from_numpy(array) for array in self._version(b).export([name]).values()]

    def _written(self, b: int) -> tuple[Tensor, Tensor]:
        rows, words = self._part(b, "words")
        rows, order = rows.sort()
        return rows, words[order]

    def link_rows(self, b: int) -> list[Tensor]:
        """Rows of the links of element b that are not empty: their numbers, columns (n, K_L) and weights (n, K_L).

        N(i,.) has number 2i, P(i,.) 2i+1 and p 2N; a column of -1 is no entry.
        """
        return self._part(b, "links")

    def usage_rows(self, b: int) -> list[Tensor]:
        """Rows of element b of usage above 0, ascending, and their usage; of a memory with allocation "free"."""
        return self._part(b, "usage")

    def recency(self, b: int) -> Tensor:
        """Rows of element b that were accessed, least recently first."""
        return self._part(b, "ring")[0]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """This memory where nothing changes; in another dtype, or, on another device, all its words (`DenseMemory`)."""
        device, dtype = torch._C._nn._parse_to(*args, **kwargs)[:2]
        if device is not None and device.type != "cpu":
            return self.dense().to(*args, **kwargs)
        if dtype in (None, self.kind.dtype):
            return self
        if dtype not in DTYPES:
            raise ValueError(f"dtype: expected float32 or float64, which the native engine holds, got {dtype}")
        kind = self.kind._replace(dtype=dtype)
        origins: dict[int, Any] = {}
        for origin in self.origins:
            if origin is not None and id(origin) not in origins:
                origins[id(origin)] = initial_words(torch.from_numpy(origin.words(None)).to(dtype))[0]
        memory = NativeMemory(
            kind,
            [None] * len(self.versions),
            [None if origin is None else origins[id(origin)] for origin in self.origins],
            placeholders.cast(self.placeholder, dtype),
        )
        memory._restore([saved_part(None if v is None else v.export()) for v in self.versions])
        return memory

    def dense(self) -> DenseMemory:
        batch, rows, _ = self.shape
        start = self._start()
        words, last_access = start.clone(), torch.zeros(batch, rows, dtype=torch.int64, device="cpu")
        usage = (
            torch.zeros(batch, rows, dtype=self.kind.dtype, device="cpu") if self.kind.allocation == "free" else None
        )
        for b in range(batch):
            written, values = self._written(b)
            words[b, written] = values
            recency = self.recency(b)
            last_access[b, recency] = torch.arange(1, len(recency) + 1, device="cpu")
            if usage is not None:
                used, values = self.usage_rows(b)
                usage[b, used] = values
        if self.placeholder is not None:
            words = placeholders.ToDense.apply(self.placeholder, words)
        return DenseMemory(words, last_access, last_access.amax(dim=1), start, usage)

    def __getstate__(self) -> dict[str, Any]:
        known = {id(origin): origin for origin in self.origins if origin is not None}
        return {
            "kind": {**self.kind._asdict()},
            "origins": [torch.from_numpy(origin.words(None)) for origin in known.values()],
            "origin_of": [-1 if o is None else list(known).index(id(o)) for o in self.origins],
            "parts": [saved_part(None if v is None else v.export()) for v in self.versions],
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        made = restored(saved)
        self.__dict__.update(made.__dict__)

    def _restore(self, parts: list[dict[str, Tensor] | None]) -> None:
        make, core = getattr(_native, f"Version{self.kind.suffix}").restored, self.kind.core()
        for b, part in enumerate(parts):
            if part is not None:
                self.versions[b] = make(core, self.origins[b], core_part(part, self.kind.dtype))


def saved_part(exported: dict[str, Any] | None) -> dict[str, Tensor] | None:
    """What the core exports of a version, as tensors."""
    if exported is None:
        return None
    return {name: torch.as_tensor(value, device="cpu") for name, value in exported.items() if value is not None}


def core_part(part: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Any]:
    """The same as the core takes it, floating-point numbers in `dtype`."""
    return {n: (t.to(dtype) if t.is_floating_point() else t).contiguous().numpy() for n, t in part.items()}


def restored(saved: Any) -> NativeMemory:
    """A memory from what was saved of one. Files are not trusted: a wrong one is a ValueError that names the field."""
    from sparsam.engines.native.saved import checked

    kind, origins, origin_of, parts = checked(saved)
    made = [initial_words(words)[0] for words in origins]
    memory = NativeMemory(kind, [None] * len(parts), [None if at < 0 else made[at] for at in origin_of])
    memory._restore(parts)
    return memory


def fresh_memory(batch: int, kind: Kind, initial: Tensor | None) -> NativeMemory:
    """What a sequence starts from: nothing is allocated until a call touches it."""
    origins: list[Any] = [None] * batch
    if initial is not None:
        made = initial_words(initial)
        origins = made * batch if initial.dim() == 2 else list(made)
    memory = NativeMemory(kind, [None] * batch, origins)
    if initial is not None and initial.requires_grad and torch.is_grad_enabled():
        memory.placeholder = placeholders.begun(initial, batch)
    return memory


def linked_rows(part: dict[str, Tensor], rows: int) -> list[Tensor]:
    """The rows that have links, and those that links lead to."""
    if not part:
        return []
    ids, columns = part["link_ids"] // 2, part["link_columns"].flatten()
    return [ids[ids < rows], columns[columns >= 0].long()]


def from_dense(dense: DenseMemory, k_links: int, link_parts: list[dict[str, Tensor]]) -> NativeMemory:
    """A native memory with the words, ring and usage of a dense one; `link_parts` holds the links, one per element."""
    words, start = dense.words.detach().cpu(), dense.start.detach().cpu()
    batch, rows, width = words.shape
    kind = Kind(rows, width, k_links, "ring" if dense.usage is None else "free", words.dtype)
    if words.dtype not in DTYPES:
        raise ValueError(f"state: expected float32 or float64, which the native engine holds, got {words.dtype}")
    blank = not bool(start.any())
    shared = start.stride(0) == 0 or bool((start == start[:1]).all())
    origins: list[Any] = [None] * batch
    if not blank:
        origins = initial_words(start[0].clone()) * batch if shared else list(initial_words(start.clone()))
    memory = NativeMemory(kind, [None] * batch, origins)
    last_access = dense.last_access.cpu()
    parts: list[dict[str, Tensor] | None] = []
    for b in range(batch):
        changed = (words[b] != start[b]).any(dim=-1)
        for linked in linked_rows(link_parts[b], rows):  # they were written, whatever their words are now
            changed[linked] = True
        at = changed.nonzero().squeeze(-1)
        order = last_access[b].sort(stable=True).indices
        part = {"rows": at, "words": words[b, at], "recency": order[last_access[b][order] > 0], **link_parts[b]}
        if dense.usage is not None:
            usage = dense.usage[b].detach().cpu()
            used = (usage > 0).nonzero().squeeze(-1)
            part |= {"usage_rows": used, "usage": usage[used]}
        touched = any(len(value) for value in part.values())
        parts.append(part if touched else None)
    memory._restore(parts)
    if dense.words.requires_grad:
        memory.placeholder = placeholders.from_dense(dense.words.to(words.device))
    return memory


torch.serialization.add_safe_globals([NativeMemory])
