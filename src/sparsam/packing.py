"""States as tensors of fixed shape, valid in every process and on disk.

`state.pack(rows)` returns a dictionary of batch-first tensors: the fields of the state, and for a sparse memory up to
`rows` rows of each batch element (words written, order of access, links or usage if any). `model.unpack` restores the
state, with the same bits in all later calls. The tensors do not hold the memory that the sequence began with: pass it
to `unpack` as to `initial_state`; a digest detects a wrong one.

`begun` is true for every element of a state. An element of zeros, as in an empty buffer, is a fresh one.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from sparsam import checks
from sparsam.engines.native.memory import NativeMemory, saved_part
from sparsam.engines.native.saved import PARTS, checked_part
from sparsam.state import State

MEMORY, CONTROLLER = "memory_", "controller_"


def pack(state: State, rows: int | None = None) -> dict[str, Tensor]:
    """The tensors of a state, of `rows` rows at most; a dense memory has all its words in them."""
    device = next(value.device for _, value in state.values() if isinstance(value, Tensor))
    held = in_core(state.detach())
    packed = {"begun": torch.ones(state.batch_size, dtype=torch.bool, device="cpu")}
    for name, value in held.values():
        if name == "controller":
            packed |= {f"{CONTROLLER}{i}": leaf for i, leaf in enumerate(pytree.tree_leaves(value))}
        elif isinstance(value, Tensor):
            packed[name] = value.clone()
        elif isinstance(value, NativeMemory):
            if rows is None:
                raise ValueError("rows: expected the most rows that an element touches, an int, got None")
            packed |= packed_memory(value, checks.positive_int("rows", rows))
    return {name: value.to(device) for name, value in packed.items()}


def in_core(state: State) -> State:
    """The state with a sparse memory, if it has one, in the core, which knows what was touched."""
    memory = getattr(state, "memory", None)
    if memory is None or isinstance(memory, Tensor | NativeMemory):
        return state
    return state.to(engine="native")


def packed_memory(memory: NativeMemory, rows: int) -> dict[str, Tensor]:
    """A native memory in lists of fixed length, -1 where a list of rows has ended."""
    exported = [saved_part(None if version is None else version.export()) or {} for version in memory.materialised()]
    packed = {MEMORY + "origin": torch.tensor([digest(origin) for origin in memory.origins], device="cpu")}
    touched = [max(len(list_) // 2 if name.startswith("link_") else len(list_) for name, list_ in part.items())
               for part in exported]  # fmt: skip
    if max(touched) > rows:
        b = touched.index(max(touched))
        raise ValueError(f"rows: expected at least {touched[b]}, which batch element {b} touched, got {rows}")
    for name, like in exported[0].items():
        most = 2 * rows + 1 if name.startswith("link_") else rows
        filled = like.new_full((len(exported), most, *like.shape[1:]), 0 if like.is_floating_point() else -1)
        for b, part in enumerate(exported):
            filled[b, : len(part[name])] = part[name]
        packed[MEMORY + name] = filled
    return packed


def digest(origin: Any) -> int:
    """Of a starting memory as the core keeps it: 0 for a blank one."""
    if origin is None:
        return 0
    return 1 + int.from_bytes(hashlib.sha256(origin.words(None).tobytes()).digest()[:7], "little")


def unpack(model: Any, packed: dict[str, Tensor], initial_memory: Tensor | None = None) -> Any:
    """The state of `model` whose tensors these are."""
    begun = packed.get("begun") if hasattr(packed, "get") else None
    if not isinstance(begun, Tensor) or begun.dim() != 1 or not len(begun):
        got = sorted(map(str, packed.keys())) if hasattr(packed, "keys") else type(packed).__name__
        raise ValueError(f"packed: expected what state.pack() returned, with begun (B,), got {got}")
    begun = begun.detach().cpu().bool()
    fresh = in_core(model.initial_state(len(begun), initial_memory).detach())
    fields: dict[str, Any] = {}
    for name in fresh.field_names:
        if getattr(fresh, name) is None and packed.get(name) is not None:
            raise ValueError(f"packed.{name}: expected none for this {type(model).__name__}, got a tensor")
    for name, value in fresh.values():
        if name == "controller":
            leaves, shape = pytree.tree_flatten(value)
            kept = [given(packed, f"{CONTROLLER}{i}", leaf) for i, leaf in enumerate(leaves)]
            fields[name] = pytree.tree_unflatten(kept, shape)
        elif isinstance(value, Tensor):
            fields[name] = given(packed, name, value)
        elif isinstance(value, NativeMemory):
            fields[name] = unpacked_memory(packed, value, begun)
    state = fresh.with_fields(**fields)
    if not bool(begun.all()):
        state = state.blend(~begun, fresh)
    like = model.state_like()
    wanted = getattr(model.initial_state(1), "memory", None)
    if isinstance(getattr(state, "memory", None), NativeMemory) and not isinstance(wanted, NativeMemory):
        state = state.to(engine=model.engine_used)
    return state.to(like.device)


def given(packed: dict[str, Tensor], name: str, like: Tensor) -> Tensor:
    value = packed.get(name)
    if not isinstance(value, Tensor) or value.shape != like.shape or value.dtype != like.dtype:
        got = f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"packed.{name}: expected {tuple(like.shape)} {like.dtype}, got {got}")
    return value.detach().to(like.device)


def unpacked_memory(packed: dict[str, Tensor], fresh: NativeMemory, begun: Tensor) -> NativeMemory:
    found = {name: packed.get(MEMORY + name) for name in (*PARTS, "origin")}
    lists = {name: value.detach().cpu() for name, value in found.items() if isinstance(value, Tensor)}
    batch = len(begun)
    for name in ("origin", "rows", "recency"):
        if name not in lists or lists[name].dtype != torch.int64:
            raise ValueError(f"packed.{MEMORY}{name}: expected int64, got another tensor or none")
    for name, value in lists.items():
        if value.dim() == 0 or len(value) != batch:
            raise ValueError(f"packed.{MEMORY}{name}: expected B = {batch} batch elements, got {tuple(value.shape)}")
    memory = NativeMemory(fresh.kind, [None] * batch, fresh.origins)
    parts: list[dict[str, Tensor] | None] = []
    for b in range(batch):
        if not bool(begun[b]):
            parts.append(None)
            continue
        if int(lists["origin"][b]) != digest(fresh.origins[b]):
            raise ValueError("initial_memory: expected the memory that the packed state began with, got another one")
        of_rows = ("rows", "recency", "link_ids", "usage_rows")
        counts = {name: int((lists[name][b] >= 0).sum()) for name in of_rows if name in lists}
        lengths: dict[str, int] = {**counts, "words": counts["rows"], "usage": counts.get("usage_rows", 0)}
        lengths |= dict.fromkeys(("link_columns", "link_weights"), counts.get("link_ids", 0))
        part = {name: value[b, : lengths[name]] for name, value in lists.items() if name != "origin"}
        parts.append(checked_part(part, fresh.kind))
    memory._restore(parts)
    return memory


def as_bytes(packed: dict[str, Tensor]) -> Tensor:
    """All tensors of a packed state in one, uint8 (B, S), for containers with room for one; zeros are fresh."""
    rows = [value.contiguous().view(torch.uint8).flatten(1) if value.dim() > 1 else value[:, None].view(torch.uint8)
            for _, value in sorted(packed.items())]  # fmt: skip
    return torch.cat(rows, dim=1)


def from_bytes(flat: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a packed state; `like` has their names, types and shapes, of any batch size."""
    found, begin = {}, 0
    sizes = {name: value[0].nbytes for name, value in sorted(like.items())}
    if flat.dtype != torch.uint8 or flat.dim() != 2 or flat.shape[1] != sum(sizes.values()):
        raise ValueError(f"state: expected uint8 (B, {sum(sizes.values())}), got {flat.dtype} {tuple(flat.shape)}")
    for name, size in sizes.items():
        part = flat[:, begin : begin + size].contiguous()
        if like[name].dtype == torch.bool and bool((part > 1).any()):
            raise ValueError("state: expected the bytes of a packed state or zeros, got others")
        part = part.view(like[name].dtype)
        found[name] = part.reshape(len(flat), *like[name].shape[1:])
        begin += size
    return found
