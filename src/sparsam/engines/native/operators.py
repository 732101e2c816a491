"""The functions of the native engine's operators (`sparsam.engines.operators`).

Memories go in and out by name (`sparsam.engines.native.names`): to a graph a memory is a value.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from sparsam.engines import boundary
from sparsam.engines.boundary import FLOATS, Inputs, Outputs, inputs_of
from sparsam.engines.engine import Controller, Ran, settings_of, traced_description
from sparsam.engines.native import names, placeholders
from sparsam.engines.native.call import NativeCall
from sparsam.engines.native.engine import core_sizes
from sparsam.engines.native.links import NativeLinks
from sparsam.engines.native.memory import Kind, NativeMemory, fresh_memory
from sparsam.engines.operators import none_or
from sparsam.memories.description import SparseSizes, from_text
from sparsam.transforms import exporting

CARRIED = Inputs._fields.index("hidden")
STEPS = 6  # outputs that are differentiated: joint, hidden, cell, read, read_weights and memory


def call_of(
    memory: Tensor,
    read_rows: Tensor,
    ends: Tensor | None,
    sizes: str,
    controller: str,
    hidden_size: int,
    clip: float,
    dtype: torch.dtype,
) -> NativeCall:
    found = from_text(sizes)
    kind = Kind(found.rows, found.width, found.k_links, found.allocation, dtype)
    held = SimpleNamespace(read_rows=read_rows, memory=NativeMemory(kind, None, None, name=memory.detach()))
    return NativeCall(found, core_sizes(found), controller, hidden_size, clip, held, ends, False)


def sequence(*arguments: Any) -> tuple[Tensor, ...]:
    """x (T, B, I) through controller, memory and, where its weights are given, the output layer: joint is y then.

    `record` leaves a tape, without which backward runs the sequence again.
    """
    *floats, memory, read_rows, ends, sizes, controller, hidden_size, clip, record = arguments
    x = floats[0]
    call = call_of(memory, read_rows, ends, sizes, controller, hidden_size, clip, x.dtype)
    out = call.forward(inputs_of(*floats, None), record)
    _, origins = names.named_memory(memory)
    after = names.memory_name(call.after, origins, None)
    tape = names.TABLE.name(call, 1, 0.0) if record else torch.zeros(1, 2, dtype=torch.float64, device="cpu")
    return out.joint, none_or(out.hidden, x), none_or(out.cell, x), out.read, out.read_weights, after, call.rows, tape  # type: ignore[return-value]


def sequence_fake(*arguments: Any) -> tuple[Tensor, ...]:
    floats = inputs_of(*arguments[:FLOATS], None)
    x, hidden, cell, w_output = floats.x, floats.hidden, floats.cell, floats.w_output
    memory, _, _, sizes, controller, hidden_size, _, _ = arguments[FLOATS:]
    names.TABLE.in_use = True
    found = from_text(sizes)
    steps, batch = x.shape[:2]
    reads = (batch, found.heads, found.k)
    joint = (0 if controller == "none" else hidden_size) + found.read_size
    return (
        x.new_empty(steps, batch, joint if w_output is None else w_output.shape[0]),
        x.new_empty(0) if hidden is None else x.new_empty(hidden.shape),
        x.new_empty(0) if cell is None else x.new_empty(cell.shape),
        x.new_empty(batch, found.heads, found.width),
        x.new_empty(reads),
        torch.empty_like(memory),
        x.new_empty(reads, dtype=torch.int64),
        x.new_empty(1, 2, dtype=torch.float64),
    )


def sequence_backward(*arguments: Any) -> list[Tensor]:
    """The gradients of the floating-point inputs, in their order, those of the parameters and the memory too."""
    floats, (memory, read_rows, ends, sizes, controller, *rest) = arguments[:FLOATS], arguments[FLOATS:-8]
    hidden_size, clip, tape = rest
    *given, d_memory, needs_x, needs_memory = arguments[-8:]
    x, inputs = floats[0], inputs_of(*floats, None)
    call = names.TABLE.find(tape)
    if not isinstance(call, NativeCall):
        call = call_of(memory, read_rows, ends, sizes, controller, hidden_size, clip, x.dtype)
    if call.tape is None:
        call.forward(inputs, True)
    after = names.named_gradients(d_memory)
    nothing: Any = (None,) * (FLOATS - 1)
    needed: Any = inputs_of(needs_x, *nothing, needs_memory, needs_memory and call.sizes.link_gradients)
    gradients: Any = (*given, after.memory, after.links)
    found = call.backward(inputs, Outputs(*gradients), needed)
    result = [none_or(value, x) for value in found[:FLOATS]]
    if given[0] is None:  # an operator has no tensor that is not there
        output = slice(Inputs._fields.index("w_output"), Inputs._fields.index("hidden"))
        result[output] = [x.new_empty(0) if v is None else torch.zeros_like(v) for v in floats[output]]
    if needs_memory:
        result.append(names.gradient_name(found.memory, found.links, x.shape[1]))
    return result


def sequence_backward_fake(*arguments: Any) -> list[Tensor]:
    floats, memory = arguments[:FLOATS], arguments[FLOATS]
    needs_x, needs_memory = arguments[-2:]
    x = floats[0]
    found = [x.new_empty(0) if v is None else x.new_empty(v.shape) for v in floats]
    if not needs_x:
        found[0] = x.new_empty(0)
    return [*found, torch.empty_like(memory)] if needs_memory else found


def sequence_keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, sizes, controller, hidden_size, clip, _ = inputs
    ctx.settings = (sizes, controller, hidden_size, clip)
    ctx.save_for_backward(*tensors, output[-1])
    ctx.set_materialize_grads(False)


def sequence_differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
    *tensors, tape = ctx.saved_tensors
    needs = ctx.needs_input_grad
    hidden, cell = inputs_of(*tensors[:FLOATS], None)[CARRIED : CARRIED + 2]
    given = [None if g is None else g.contiguous() for g in gradients[:STEPS]]
    given[1] = None if hidden is None else given[1]
    given[2] = None if cell is None else given[2]
    found = torch.ops.sparsam.sequence_backward(*tensors, *ctx.settings, tape, *given, needs[0], needs[FLOATS])
    wanted = [g if need and v is not None else None for g, need, v in zip(found, needs, tensors[:FLOATS])]
    wanted.append(found[FLOATS] if needs[FLOATS] else None)
    return (*wanted, *(None,) * (len(needs) - len(wanted)))


def blank(batch: int, kind: str, like: Tensor) -> Tensor:
    """The name of a fresh memory without words."""
    return fresh_memory(batch, Kind.of_text(kind), None).named()


def blank_fake(batch: int, kind: str, like: Tensor) -> Tensor:
    return like.new_empty(batch, 2, dtype=torch.float64)


def begin(words: Tensor, batch: int, kind: str) -> Tensor:
    """The name of a fresh memory with a user's words, (N, W) or (B, N, W)."""
    if not bool(torch.isfinite(words).all()):
        raise ValueError("initial_memory: expected finite numbers, got NaN or infinity")
    return fresh_memory(batch, Kind.of_text(kind), words.detach()).named()


def begin_fake(words: Tensor, batch: int, kind: str) -> Tensor:
    return words.new_empty(batch, 2, dtype=torch.float64)


def begin_backward(d_memory: Tensor, words: Tensor) -> Tensor:
    """The gradient of a user's words, dense: a graph knows no sparse ones."""
    found = names.named_gradients(d_memory).memory
    if found is None:
        return torch.zeros_like(words)
    found = found.coalesce()
    at = found.indices()[1:] if words.dim() == 2 else found.indices()
    return placeholders.sparse_rows(at, found.values(), tuple(words.shape)).to_dense().to(words.dtype)


def begin_backward_fake(d_memory: Tensor, words: Tensor) -> Tensor:
    return torch.empty_like(words)


def begin_keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def begin_differentiate(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return torch.ops.sparsam.begin_backward(gradient, ctx.saved_tensors[0]), None, None


def choose(mask: Tensor, where_true: Tensor, where_false: Tensor) -> Tensor:
    """The name of the memories of `where_true` where `mask` (B,) holds, and of `where_false` elsewhere."""
    pairs = zip(names.named_memory(where_true), names.named_memory(where_false))
    versions, origins = ([a if take else b for take, a, b in zip(mask.tolist(), *pair)] for pair in pairs)
    return names.memory_name(versions, origins, None)


def choose_fake(mask: Tensor, where_true: Tensor, where_false: Tensor) -> Tensor:
    return torch.empty_like(where_false)


def choose_backward(mask: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of each element goes to the memory that it came from."""
    found = names.named_gradients(gradient)
    halves = []
    for side in (mask, ~mask):
        memory, links = (None if g is None else placeholders.of_elements(g, side) for g in (found.memory, found.links))
        halves.append(names.gradient_name(memory, links, len(mask)))
    return halves[0], halves[1]


def choose_backward_fake(mask: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(gradient), torch.empty_like(gradient)


def choose_keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def choose_differentiate(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    return None, *torch.ops.sparsam.choose_backward(ctx.saved_tensors[0], gradient)


def traced_name(memory: NativeMemory, like: Tensor) -> Tensor:
    if memory.name is not None:
        return memory.name
    versions, origins = memory._versions, memory._origins
    blank = isinstance(versions, list) and all(v is None for v in versions)
    if memory._placeholder is None and blank and all(o is None for o in origins):  # type: ignore[union-attr]
        name: Tensor = torch.ops.sparsam.blank(len(versions), memory.kind.text(), like.detach())
        return name
    raise RuntimeError(
        "state: expected one that a compiled call can take, got one of eager calls before the first compiled one; "
        "pass state.to(engine='native')"
    )


def traced_fresh(kind: Kind, batch: int, initial: Tensor | None, like: Tensor) -> NativeMemory:
    if initial is None:
        name = torch.ops.sparsam.blank(batch, kind.text(), like.detach())
    else:
        name = torch.ops.sparsam.begin(initial, batch, kind.text())
    return NativeMemory(kind, None, None, None, name)


def traced_run(
    memory: Any, controller: Controller | None, x: Tensor, state: Any, ends: Tensor | None, record: bool
) -> Ran:
    sizes: SparseSizes = memory.sizes
    text = traced_description(memory, record)
    if sizes.k_links and state.links.placeholder is not None:
        raise RuntimeError("state: expected state.detach() of an eager call with link_gradients=True")
    name = traced_name(state.memory, x)
    given = boundary.inputs(controller, x, state, None)
    floats = given[:FLOATS]
    differentiable = any(value is not None and value.requires_grad for value in (*floats, name))
    recorded = torch.is_grad_enabled() and differentiable and not exporting()
    kind, hidden_size, clip = settings_of(controller)
    joint, hidden, inner, read, weights, name, rows, _ = torch.ops.sparsam.sequence(
        *floats, name, state.read_rows, ends, text, kind, hidden_size, clip, recorded
    )
    carried = (None if given.hidden is None else hidden, None if given.cell is None else inner)
    held, links = NativeMemory(state.memory.kind, None, None, None, name), NativeLinks(x.shape[1])
    out = Outputs(joint, *carried, read, weights, None)
    return Ran(joint, boundary.fields_after(out, rows, held, links if sizes.k_links else None), [])


def traced_choice(mask: Tensor, where_true: NativeMemory, where_false: NativeMemory) -> NativeMemory:
    both = (traced_name(memory, mask) for memory in (where_true, where_false))
    return NativeMemory(where_false.kind, None, None, None, torch.ops.sparsam.choose(mask, *both))
