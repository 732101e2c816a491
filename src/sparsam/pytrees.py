"""States as pytrees, so that `torch.export` and `torch.utils._pytree` take them apart into tensors.

A state is its fields that are there, its start included. The native memory is its name (`engines/native/names.py`),
which holds in one process: a state is saved with `torch.save`, not as the tensors of its pytree. The GPU engine's is
its tensors; what the host knows of it (`touched`, `entries`) are constants of the tree.

A fresh state and its start share tensors, as h and c do. A graph must not take that for granted, so the leaves of a
state are distinct tensors over the same storage.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data._utils.collate import default_collate_fn_map

from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.native.links import NativeLinks
from sparsam.engines.native.memory import Kind, NativeMemory
from sparsam.layer import SparseMemoryState
from sparsam.memories.dam import DAMState
from sparsam.memories.dnc import DNCState
from sparsam.memories.ntm import NTMState
from sparsam.memories.sam import SAMState
from sparsam.memories.sdnc import DenseLinks, SDNCState
from sparsam.models import LSTMState
from sparsam.state import DenseMemory, State, TensorStore, cat

STATES = (LSTMState, SAMState, SDNCState, DAMState, NTMState, DNCState, SparseMemoryState)


def register_fields(cls: Any, settings: tuple[str, ...] = ()) -> None:
    """A state or store as a pytree of those fields that are there; `settings` are constants of the tree."""
    every = cls.field_names if issubclass(cls, State) else [entry.name for entry in dataclasses.fields(cls)]
    names = [name for name in every if name not in settings]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        there = [name for name in names if getattr(value, name) is not None]
        shown = apart(value) if isinstance(value, State) else value
        children = [getattr(shown, name) for name in there]
        return children, (*there, *(getattr(value, name) for name in settings))

    def unflatten(children: Any, context: Any) -> Any:
        children, context = list(children), list(context)
        there, constants = context[: len(children)], context[len(children) :]
        fields = {**dict.fromkeys(names), **dict(zip(there, children)), **dict(zip(settings, constants))}
        return cls(**fields)

    def with_keys(value: Any) -> tuple[list[Any], Any]:
        children, context = flatten(value)
        # not attributes: torch mistakes `state.read` for the beginning of `state.read_rows`
        return [(pytree.MappingKey(name), child) for name, child in zip(context, children)], context

    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"sparsam.{cls.__name__}",
        to_dumpable_context=list,
        from_dumpable_context=tuple,
        flatten_with_keys_fn=with_keys,
    )


_apart: weakref.WeakKeyDictionary[State, State] = weakref.WeakKeyDictionary()


def apart(state: State) -> State:
    """The state with tensors of its own over the same storage, always the same ones for the same state."""
    if torch.compiler.is_compiling():  # what a graph puts out may share tensors
        return state
    if state not in _apart:
        start = getattr(state, "start", None)
        copy = state.map(copied)
        _apart[state] = copy if start is None else copy.with_fields(start=start.map(copied))
    return _apart[state]


def copied(value: Any) -> Any:
    """A tensor over the same storage, not as a view where it can be: a view fixes the batch of an exported program."""
    if isinstance(value, Tensor):
        return value.view_as(value) if value.requires_grad else value.data
    if isinstance(value, NativeMemory):
        held: tuple[Any, Any, Any] = (
            (None, None, None) if value._by_name else (value._versions, value._origins, value._placeholder)
        )
        return NativeMemory(value.kind, *held, copied(value.named()))
    return value.map(copied) if isinstance(value, TensorStore) else value


def memory_of(children: Any, kind: Kind) -> NativeMemory:
    (name,) = children
    return NativeMemory(kind, None, None, None, name)


def links_leaves(links: NativeLinks) -> list[Any]:
    """The batch as the shape of a tensor without numbers: an int would be a constant of the exported program."""
    if links.leaf is None:
        links.leaf = torch.empty(links.batch, 0, device="cpu")
    return [links.leaf]


def links_of(children: Any, context: Any) -> NativeLinks:
    (leaf,) = children
    links = NativeLinks(leaf.shape[0] if isinstance(leaf, Tensor) else 0)
    links.leaf = leaf
    return links


def dynamic_batch(state: Any) -> Any:
    """What `torch.export.export` takes in `dynamic_shapes` for a state whose batch may be of any size."""
    if isinstance(state, Tensor):
        return {0: torch.export.Dim.DYNAMIC}
    children, _ = pytree.SUPPORTED_NODES[type(state)].flatten_fn(state)
    return [dynamic_batch(child) for child in children]


def collated(states: Sequence[State], *, collate_fn_map: Any = None) -> State:
    """States of single sequences as one batch, for `torch.utils.data.default_collate`."""
    for state in states:
        if state.batch_size != 1:
            raise ValueError(
                f"states: expected states of one sequence each, state[b], got batch size {state.batch_size}; "
                "sparsam.cat joins whole batches"
            )
    return cat(states)


def register() -> None:
    for cls in STATES:
        register_fields(cls)
    register_fields(DenseMemory)
    register_fields(DenseLinks, ("k_links",))
    register_fields(CudaMemory, ("rows", "touched", "entries"))
    register_fields(SparseLinks, ("rows",))
    default_collate_fn_map[State] = collated
    pytree.register_pytree_node(
        NativeMemory,
        lambda memory: ([memory.named()], memory.kind),
        memory_of,
        serialized_type_name="sparsam.NativeMemory",
        to_dumpable_context=Kind.text,
        from_dumpable_context=Kind.of_text,
        flatten_with_keys_fn=lambda memory: ([(pytree.MappingKey("name"), memory.named())], memory.kind),
    )
    pytree.register_pytree_node(
        NativeLinks,
        lambda links: (links_leaves(links), None),
        links_of,
        serialized_type_name="sparsam.NativeLinks",
        to_dumpable_context=lambda context: "",
        from_dumpable_context=lambda text: None,
        flatten_with_keys_fn=lambda links: ([(pytree.MappingKey("batch"), *links_leaves(links))], None),
    )


register()
