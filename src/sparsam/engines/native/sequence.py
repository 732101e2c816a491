"""A whole sequence of SAM or SDNC as one node of the autograd graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.bypass import bypass_mask, masked_joint
from sparsam.engines.native import products
from sparsam.engines.native.core import native as _native
from sparsam.engines.native.index import core_settings
from sparsam.engines.native.memory import sparse_rows, stand_in
from sparsam.engines.native.tape import TapeBuffer
from sparsam.engines.reference.access import READ, WRITE, Access
from sparsam.engines.whole_sequence import require_first_backward


class Call:
    """What one call hands to the autograd function beside tensors, and what it leaves there."""

    def __init__(self, model: Any, state: Any, ends: Tensor, record: bool, begin: int, keep: bool) -> None:
        self.model, self.state, self.record, self.begin, self.keep = model, state, record, begin, keep
        self.ends = ends
        self.after: list[Any] = []
        self.accesses: list[Access] = []


class Sequence(torch.autograd.Function):
    """A whole sequence as one node of the autograd graph; see `csrc/step/sequence.h` for the letters."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        x: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
        w_interface: Tensor,
        b_interface: Tensor,
        w_output: Tensor,
        b_output: Tensor,
        hidden: Tensor,
        cell: Tensor,
        read: Tensor,
        read_weights: Tensor,
        link: Tensor | None,
        links_graph: Tensor | None,
    ) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        model, dtype = call.model, x.dtype
        steps, batch, inputs = x.shape
        width_h, width_r, reads = model.hidden_size, model.read_size, (model.num_heads, model.k)
        x = x.detach()
        k_links, free = getattr(model, "k_links", 0), getattr(model, "allocation", "ring") == "free"
        asked, joined, read_count = w_interface.shape[0], width_h + width_r, model.num_heads * model.k
        kept = steps * (4 * width_h + asked) + (steps + 1) * (width_h + joined) + (4 * steps + 2) * read_count
        kept += steps * model.num_heads if free else 0
        buffer = TapeBuffer(kept * batch, 8, dtype)
        gates = buffer.carve(steps, batch, 4 * width_h)  # input part and biases now, activated in place by the core
        flat_x = x.reshape(steps * batch, inputs)
        products.linear(flat_x, w_ih[:, :inputs], b_ih + b_hh, out=gates.view(steps * batch, -1))
        recurrent = torch.cat([w_hh, w_ih[:, inputs:]], dim=1)
        cells = buffer.carve(steps + 1, batch, width_h)
        joint = buffer.carve(steps + 1, batch, joined)  # [h_t, r_t]; joint[0] is the incoming state
        interface = buffer.carve(steps, batch, asked)
        rows = torch.empty(steps + 1, batch, *reads, dtype=torch.int32)
        weights = buffer.carve(steps + 1, batch, *reads)
        scores = buffer.carve(steps, batch, *reads)
        unused = torch.empty(steps, batch, model.num_heads, dtype=torch.int32) if call.record or free else None
        room = buffer.carve(steps, batch, model.num_heads) if free else None
        cells[0] = cell
        joint[0, :, :width_h] = hidden
        joint[0, :, width_h:] = read.flatten(1)
        rows[0] = call.state.read_rows
        weights[0] = read_weights
        tape_class = _native.Tape32 if dtype == torch.float32 else _native.Tape64
        content_rows = torch.empty(steps, batch, *reads, dtype=torch.int32) if k_links else None
        content_weights = buffer.carve(steps, batch, *reads) if k_links else None
        asked_for = (unused, content_rows, content_weights, room)
        kept_parts = (gates, cells, joint, interface, rows, weights, scores, *asked_for)
        tape = tape_class(*map(products.array, kept_parts))
        link_gradients = k_links > 0 and model.link_gradients
        shape = _native.SamShape(
            steps,
            batch,
            width_h,
            model.memory_size,
            model.word_size,
            model.num_heads,
            model.k,
            getattr(_native.Similarity, model.similarity),
            model.delta,
            k_links,
            link_gradients,
            free,
        )
        shape.index = core_settings(model.index)
        lengths = call.ends.tolist()
        differentiable = any(ctx.needs_input_grad)
        recorded = _native.forward(
            shape,
            recurrent.numpy(),
            products.array(w_interface),
            products.array(b_interface),
            lengths,
            tape,
            call.state.memory.materialised(),
            differentiable or call.keep,
            torch.get_num_threads(),
        )
        call.after = recorded.after
        bypass = bypass_mask(model, x)
        seen = masked_joint(joint[1:], bypass).view(steps * batch, -1)
        y = products.linear(seen, w_output, b_output).view(steps, batch, -1)
        padded = min(lengths) < steps
        if padded:
            y[torch.arange(steps)[:, None] >= call.ends] = 0
        final = _final_step(lengths, steps, batch)
        last_rows = rows[final].to(torch.int64)
        last_joint, last_cell, last_weights = joint[final], cells[final], weights[final]
        if call.record and unused is not None:
            call.accesses = _accesses(call.begin, lengths, rows, weights, interface, unused, room, model)
        ctx.mark_non_differentiable(last_rows)
        after_link = after_graph = None
        if differentiable:
            ctx.save_for_backward(x, w_ih, w_interface, w_output)
            ctx.held = (recorded, tape, gates, cells, joint, interface, rows, weights, scores)
            ctx.held += (*asked_for, recurrent, buffer)
            ctx.kept_bytes = sum(part.nbytes for part in kept_parts if part is not None) + recorded.bytes
            ctx.lengths, ctx.has_link, ctx.bypass = lengths, link is not None, bypass
            ctx.memory_shape = (batch, model.memory_size, model.word_size)
            # Stands for the memory in the graph: no storage of its own, and a sparse gradient.
            after_link = stand_in(x, ctx.memory_shape)
            ctx.links_shape = (batch, 2 * model.memory_size + 1, model.memory_size)
            after_graph = stand_in(x, ctx.links_shape) if link_gradients else None
        outputs = (
            y,
            last_joint[:, :width_h].clone(),
            last_cell.clone(),
            last_joint[:, width_h:].reshape(batch, model.num_heads, model.word_size).clone(),
            last_rows,
            last_weights.clone(),
            after_link,
            after_graph,
        )
        if not differentiable:
            buffer.release()
        return outputs

    @staticmethod
    def backward(
        ctx: Any,
        d_y: Tensor | None,
        d_hidden: Tensor | None,
        d_cell: Tensor | None,
        d_read: Tensor | None,
        _: Any,
        d_weights: Tensor | None,
        d_link: Tensor | None,
        d_graph: Tensor | None,
    ) -> tuple[Any, ...]:
        require_first_backward("native", ctx.held)
        recorded, tape, gates, cells, joint, interface, _rows, weights, _scores, *_asked, recurrent, buffer = ctx.held
        x, w_ih, w_interface, w_output = ctx.saved_tensors
        ctx.held = None
        steps, batch, inputs = x.shape
        width_h = cells.shape[-1]
        states = joint[1:]
        d_w_output = d_b_output = None
        if d_y is None:
            d_joint = torch.zeros_like(states)
        else:
            if min(ctx.lengths) < steps:
                d_y = d_y.masked_fill((torch.arange(steps)[:, None] >= torch.tensor(ctx.lengths))[..., None], 0)
            flat_y = d_y.reshape(steps * batch, -1)
            d_joint = products.linear_back(flat_y, w_output)
            if ctx.bypass is not None:
                d_joint = masked_joint(d_joint.view(steps, batch, -1), ctx.bypass)
            d_w_output = products.tall(flat_y, masked_joint(states, ctx.bypass).view(steps * batch, -1))
            d_b_output = flat_y.sum(0)
        d_state = x.new_zeros(batch, states.shape[-1])
        if d_hidden is not None:
            d_state[:, :width_h] = d_hidden
        if d_read is not None:
            d_state[:, width_h:] = d_read.flatten(1)
        d_state_cell = torch.zeros_like(cells[0]) if d_cell is None else d_cell.contiguous().clone()
        d_state_weights = torch.zeros_like(weights[0]) if d_weights is None else d_weights.contiguous().clone()
        memory_at, memory_words = _parts(d_link)
        link_at, link_values = _parts(d_graph)
        at, words, links_at, links_values = _native.backward(
            recorded,
            recurrent.numpy(),
            products.array(w_interface),
            tape,
            *map(products.array, (d_joint, d_state, d_state_cell, d_state_weights)),
            *map(products.array, (memory_at, memory_words, link_at, link_values)),
            torch.get_num_threads(),
        )
        # gates and interface now hold gradients: weight gradients are one product each over all steps.
        d_gates = gates.view(steps * batch, -1)
        d_interface = interface.view(steps * batch, -1)
        d_recurrent = products.tall(d_gates, joint[:-1].view(steps * batch, -1))
        flat_x = F.pad(x.reshape(steps * batch, inputs), (0, 1), value=1.0)  # with a 1, whose weights are the biases
        d_input = products.tall(d_gates, flat_x)
        d_w_ih = torch.cat([d_input[:, :inputs], d_recurrent[:, width_h:]], dim=1)
        d_bias = d_input[:, inputs]
        d_x = (d_gates @ w_ih[:, :inputs]).view(steps, batch, -1) if ctx.needs_input_grad[1] else None
        d_memory = None
        if ctx.has_link and ctx.needs_input_grad[14]:
            d_memory = sparse_rows(torch.from_numpy(at), torch.from_numpy(words), ctx.memory_shape)
        d_links = None
        if ctx.needs_input_grad[15]:
            d_links = sparse_rows(torch.from_numpy(links_at), torch.from_numpy(links_values), ctx.links_shape)
        d_w_interface = products.tall(d_interface, states.view(steps * batch, -1)[:, :width_h])
        d_b_interface = d_interface.sum(0)
        buffer.release()
        return (
            None,
            d_x,
            d_w_ih,
            d_recurrent[:, :width_h],
            d_bias,
            d_bias,
            d_w_interface,
            d_b_interface,
            d_w_output,
            d_b_output,
            d_state[:, :width_h],
            d_state_cell,
            d_state[:, width_h:].reshape(batch, -1, words.shape[-1]),
            d_state_weights,
            d_memory,
            d_links,
        )


def _parts(gradient: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Indices and values of a sparse gradient."""
    if gradient is None:
        return None, None
    gradient = gradient.coalesce()
    return gradient.indices().contiguous(), gradient.values().contiguous()


def _final_step(lengths: list[int], steps: int, batch: int) -> Any:
    """Index of each element's last state in tensors of shape (T+1, B, ...)."""
    return steps if min(lengths) == steps else (torch.tensor(lengths), torch.arange(batch))


def _accesses(
    begin: int,
    lengths: list[int],
    rows: Tensor,
    weights: Tensor,
    interface: Tensor,
    unused: Tensor,
    room: Tensor | None,
    model: Any,
) -> list[Access]:
    """What was written (eq. lru_write_weights) and read, from the tape."""
    heads = model.num_heads
    gates = interface[..., 2 * model.read_size :]
    alpha, gamma = gates[..., heads : 2 * heads], gates[..., 2 * heads : 3 * heads]
    write_rows = torch.cat([rows[:-1], unused[..., None]], dim=-1)
    fresh = alpha * (1 - gamma) if room is None else alpha * (1 - gamma) * room
    write_weights = torch.cat([(alpha * gamma)[..., None] * weights[:-1], fresh[..., None]], dim=-1)
    past = torch.arange(rows.shape[0] - 1)[:, None] >= torch.tensor(lengths)
    read_rows = rows[1:].masked_fill(past[..., None, None], -1)
    write_rows = write_rows.masked_fill(past[..., None, None], -1)
    return [Access(WRITE, begin, write_rows, write_weights), Access(READ, begin, read_rows, weights[1:].clone())]
