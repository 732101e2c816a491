"""A whole sequence of SAM or SDNC on the GPU as one node of the autograd graph.

The kernels step through time; what can be one large product over all steps stays with torch, as in the native engine.
Unlike there the memory is copied when a call begins (on a GPU that is the cheaper way to keep a state a value), and
the words read are kept on the tape, so that nothing is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sparsam.engines.bypass import masked_joint
from sparsam.engines.cuda.layout import Layout
from sparsam.engines.whole_sequence import require_first_backward

BACKWARD_SIZES = ("R", "W", "HP", "RP", "KP", "WP", "GP", "KL")  # what each kernel is compiled for
FORWARD_SIZES = (*BACKWARD_SIZES, "K", "SIZE", "ACCESSES", "KLP", "CP", "CHANGED")
PRODUCT, SEARCH, WARPS = 32, 128, 8  # rows of a matrix and of the memory looked at together; warps of a program
SEARCH_LINKED, LINKED = 64, 4  # of the memory with links; rows of P changed together, per warp. More do not fit the
# registers, and the code not its cache.


@dataclass
class Call:
    """What one call hands to the autograd function beside tensors, and what it leaves there."""

    model: Any
    ends: Tensor  # (B,) int32, on the device
    padded: bool
    last_access: Tensor
    clock: Tensor
    fresh: bool  # a blank memory that nothing has touched
    links: tuple[Tensor, ...]
    bypass: Tensor | None  # mask of bypass dropout
    after: dict[str, Any] = field(default_factory=dict)


class Sequence(torch.autograd.Function):
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
        read_rows: Tensor,
        read_weights: Tensor,
        words: Tensor,
    ) -> tuple[Any, ...]:
        from sparsam.engines.cuda.kernels.forward import forward as kernel

        ctx.set_materialize_grads(False)
        size = Layout.of(call.model)
        steps, batch, inputs = x.shape
        rows_in_all = words.shape[1]
        x = x.detach()
        new = torch.empty
        like: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        counts: dict[str, Any] = {"dtype": torch.int32, "device": x.device}

        gates = F.linear(x.reshape(steps * batch, inputs), w_ih[:, :inputs], b_ih + b_hh)
        gates = size.pad_gates(gates).view(steps, batch, 4 * size.HP)
        cells = new(steps + 1, batch, size.HP, **like)
        joint = new(steps + 1, batch, size.JP, **like)
        interface = new(steps, batch, size.AP, **like)
        rows = new(steps + 1, batch, size.RP, size.KP, **counts)
        weights = new(steps + 1, batch, size.RP, size.KP, **like)
        scores = new(steps, batch, size.RP, size.KP, **like)
        unused = new(steps, batch, size.RP, **counts)
        read_words = new(steps, batch, size.RP, size.KP, size.WP, **like)
        linked = steps if size.KL else 0
        content_rows = new(linked, batch, size.RP, size.KP, **counts)
        content_weights = new(linked, batch, size.RP, size.KP, **like)
        content_words = new(linked, batch, size.RP, size.KP, size.WP, **like)
        to_before = new(linked, batch, size.RP, size.KP, size.KP, **like)
        to_after = torch.empty_like(to_before)
        cells[0] = F.pad(cell, (0, size.HP - size.H))
        joint[0] = size.join(hidden, read)
        rows[0] = size.pad_reads(read_rows, -1)
        weights[0] = size.pad_reads(read_weights, 0.0)

        recurrent = size.recurrent(w_hh.detach(), w_ih[:, inputs:].detach())
        asking = size.pad_interface(w_interface.detach().mT)  # (H, AP)
        asking = F.pad(asking, (0, 0, 0, size.HP - size.H)).contiguous()
        asking_bias = size.pad_interface(b_interface.detach())

        words = words.detach().clone(memory_format=torch.contiguous_format)
        last_access = call.last_access.clone(memory_format=torch.contiguous_format)
        clock = call.clock.clone()
        room = rows_in_all + steps * (2 * size.R * size.K + size.R)
        queue_rows, queue_stamps = _queue(last_access, call.fresh, room)
        scanned = torch.zeros(batch, **counts) if call.fresh else _last_written(words)
        links = [value.clone(memory_format=torch.contiguous_format) for value in call.links]
        mark = new(batch if size.KL else 0, rows_in_all, **counts)
        changed = new(batch if size.KL else 0, size.CHANGED, **counts)
        scratch_rows = new(batch if size.KL else 0, size.RP, size.CP, **counts)
        scratch_weights = new(scratch_rows.shape, **like)
        tape: tuple[Tensor, ...] = (cells, interface, rows, weights, scores, unused, read_words)
        tape += (content_rows, content_weights, content_words, to_before, to_after)
        kernel[(batch,)](
            gates,
            cells,
            joint,
            *tape[1:],
            recurrent.mT.contiguous(),
            asking,
            asking_bias,
            words,
            last_access,
            clock,
            scanned,
            queue_rows,
            queue_stamps,
            *(links or [mark] * 6),
            mark,
            changed,
            scratch_rows,
            scratch_weights,
            call.ends,
            steps,
            batch,
            rows_in_all,
            room,
            call.model.delta,
            **size.constants(FORWARD_SIZES),
            SIMILARITY=call.model.similarity,
            PRODUCT=PRODUCT,
            SEARCH=SEARCH_LINKED if size.KL else SEARCH,
            LINKED=LINKED * WARPS,
            num_warps=WARPS,
        )
        y = F.linear(masked_joint(size.unpadded(joint[1:]), call.bypass), w_output, b_output)
        if call.padded:
            y = y.masked_fill(_past(call.ends, steps)[..., None], 0.0)
        call.after = {"last_access": last_access, "clock": clock, "links": links}
        call.after |= {"rows": rows, "weights": weights, "interface": interface, "unused": unused}
        final = (call.ends.long(), torch.arange(batch, device=x.device)) if call.padded else steps
        last_hidden, last_read = size.split(joint[final])
        last_rows = rows[final][:, : size.R, : size.K].long()
        ctx.mark_non_differentiable(last_rows)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, w_ih, w_output)
            ctx.held = (gates, joint, tape, recurrent, asking)
            ctx.call, ctx.size = call, size
        return (
            y,
            last_hidden.clone(),
            cells[final][:, : size.H].clone(),
            last_read.clone(),
            last_rows,
            weights[final][:, : size.R, : size.K].clone(),
            words,
        )

    @staticmethod
    def backward(
        ctx: Any,
        d_y: Tensor | None,
        d_hidden: Tensor | None,
        d_cell: Tensor | None,
        d_read: Tensor | None,
        _: Any,
        d_weights: Tensor | None,
        d_words: Tensor | None,
    ) -> tuple[Any, ...]:
        from sparsam.engines.cuda.kernels.backward import backward as kernel

        require_first_backward("cuda", ctx.held)
        gates, joint, tape, recurrent, asking = ctx.held
        ctx.held = None
        call, size = ctx.call, ctx.size
        x, w_ih, w_output = ctx.saved_tensors
        steps, batch, inputs = x.shape
        interface = tape[1]
        d_w_output = d_b_output = None
        if d_y is None:
            d_joint = torch.zeros_like(joint[1:])
        else:
            if call.padded:
                d_y = d_y.masked_fill(_past(call.ends, steps)[..., None], 0.0)
            flat_y = d_y.reshape(steps * batch, -1)
            d_joint = masked_joint((flat_y @ w_output).view(steps, batch, -1), call.bypass)
            d_joint = size.padded(d_joint).contiguous()
            seen = masked_joint(size.unpadded(joint[1:]), call.bypass)
            d_w_output = flat_y.mT @ seen.reshape(steps * batch, -1)
            d_b_output = flat_y.sum(0)
        zero = x.new_zeros
        d_state = size.join(
            zero(batch, size.H) if d_hidden is None else d_hidden,
            zero(batch, size.R, size.W) if d_read is None else d_read,
        ).contiguous()
        d_state_cell = zero(batch, size.HP) if d_cell is None else F.pad(d_cell, (0, size.HP - size.H)).contiguous()
        d_state_weights = (
            zero(batch, size.RP, size.KP) if d_weights is None else size.pad_reads(d_weights, 0.0).contiguous()
        )
        shape = (batch, call.last_access.shape[1], size.W)
        d_words = zero(shape) if d_words is None else d_words.clone(memory_format=torch.contiguous_format)
        kernel[(batch,)](
            gates,
            *tape,
            recurrent,
            asking.mT.contiguous(),
            d_joint,
            d_state,
            d_state_cell,
            d_state_weights,
            d_words,
            call.ends,
            steps,
            batch,
            shape[1],
            **size.constants(BACKWARD_SIZES),
            SIMILARITY=call.model.similarity,
            PRODUCT=PRODUCT,
            num_warps=WARPS,
        )
        # gates and interface now hold gradients: weight gradients are one product each over all steps.
        d_gates = size.gates(gates).view(steps * batch, -1)
        d_interface = size.interface(interface).reshape(steps * batch, -1)
        d_recurrent = d_gates.mT @ size.unpadded(joint[:-1]).reshape(steps * batch, -1)
        d_input = d_gates.mT @ x.reshape(steps * batch, inputs)
        d_bias = d_gates.sum(0)
        d_x = (d_gates @ w_ih[:, :inputs]).view(steps, batch, -1) if ctx.needs_input_grad[1] else None
        hidden = joint[1:, :, : size.H].reshape(steps * batch, -1)
        d_start, d_start_read = size.split(d_state)
        return (
            None,
            d_x,
            torch.cat([d_input, d_recurrent[:, size.H :]], dim=1),
            d_recurrent[:, : size.H],
            d_bias,
            d_bias,
            d_interface.mT @ hidden,
            d_interface.sum(0),
            d_w_output,
            d_b_output,
            d_start,
            d_state_cell[:, : size.H],
            d_start_read,
            None,
            d_state_weights[:, : size.R, : size.K],
            d_words if ctx.needs_input_grad[15] else None,
        )


def _past(ends: Tensor, steps: int) -> Tensor:
    """(T, B): the steps past an element's length."""
    return torch.arange(steps, device=ends.device)[:, None] >= ends


def _queue(last_access: Tensor, fresh: bool, room: int) -> tuple[Tensor, Tensor]:
    """The ring as a queue of rows and the stamps of their last accesses, with room for what is to come."""
    batch, size = last_access.shape
    queue_rows = torch.empty(batch, room, dtype=torch.int32, device=last_access.device)
    queue_stamps = torch.empty(batch, room, dtype=torch.int64, device=last_access.device)
    if fresh:
        queue_rows[:, :size] = torch.arange(size, dtype=torch.int32, device=last_access.device)
        queue_stamps[:, :size] = 0
    else:
        stamps, order = last_access.sort(dim=1, stable=True)
        queue_rows[:, :size] = order
        queue_stamps[:, :size] = stamps
    return queue_rows, queue_stamps


def _last_written(words: Tensor) -> Tensor:
    """(B,) int32: one more than the last row that is not blank."""
    number = torch.arange(1, words.shape[1] + 1, dtype=torch.int32, device=words.device)
    return (words.ne(0).any(-1) * number).amax(1).to(torch.int32)
