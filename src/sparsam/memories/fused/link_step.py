"""One step of the DNC's links as one operation with its own backward pass: the same numbers as `temporal`, faster.

Plain autograd walks over the (B, N, N) matrices some twenty times per step and keeps three of them. Written out, a step
needs a handful of passes and keeps one, the link matrix itself. `temporal.dense_links` and `temporal.follow_links`
remain the definition that this is tested against.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.reference.temporal import dense_links, follow_links

BLOCK_ENTRIES = 2**20


def link_step(link: Tensor, precedence: Tensor, written: Tensor, read: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L_t of `dense_links`, and f = L_t w^R_{t-1}, b = L_t^T w^R_{t-1} of `follow_links`.

    Link (B, N, N), precedence p_{t-1} and write weights w (B, N), previous read weights (B, R, N).
    """
    return LinkStep.apply(link, precedence, written, read)  # type: ignore[no-any-return]


class LinkStep(torch.autograd.Function):
    """(L_{t-1}, p, w, w^R) to (L_t, f, b). With G the gradient of L_t, those through f and b included:

    dL_{t-1}(i,j) = (1 - w(i) - w(j)) G(i,j),   dp = G^T w,   dw(i) = (G p)(i) - sum_j (G L)(i,j) - sum_j (G L)(j,i).
    """

    @staticmethod
    def forward(ctx: Any, link: Tensor, precedence: Tensor, written: Tensor, read: Tensor) -> tuple[Tensor, ...]:
        after = torch.empty(link.shape, dtype=link.dtype, device=link.device)
        followed = []
        for at in blocks(link):
            rows, columns, new = written[at, :, None], written[at, None, :], after[at]
            torch.mul(link[at], 1 - rows, out=new)
            new.addcmul_(link[at], columns, value=-1)
            new.baddbmm_(rows, precedence[at, None, :])
            new.diagonal(dim1=1, dim2=2).zero_()
            followed.append(follow_links(new, read[at]))
        forward, backward = (joined(parts) for parts in zip(*followed))
        ctx.save_for_backward(link, precedence, written, read, after)
        ctx.set_materialize_grads(False)  # usually nothing uses the links after the last step
        return after, forward, backward

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        link, precedence, written, read, after = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            return plain_gradients((link, precedence, written, read), grads)
        to_after, to_forward, to_backward = grads
        to_forward = torch.zeros_like(read) if to_forward is None else to_forward
        to_backward = torch.zeros_like(read) if to_backward is None else to_backward
        # f(i) = sum_j L(i,j) r(j) and b(j) = sum_i L(i,j) r(i): both add outer products to the gradient of L
        left, right = torch.cat([to_forward, read], dim=1).mT, torch.cat([read, to_backward], dim=1)
        to_link = torch.empty_like(after)
        found = []
        for at in blocks(link):
            rows, columns, gradient = written[at, :, None], written[at, None, :], to_link[at]
            if to_after is None:
                torch.bmm(left[at], right[at], out=gradient)
            else:
                torch.baddbmm(to_after[at], left[at], right[at], out=gradient)
            gradient.diagonal(dim1=1, dim2=2).zero_()
            to_read = torch.baddbmm(to_forward[at] @ after[at], to_backward[at], after[at].mT)
            to_precedence = (columns @ gradient)[:, 0]
            scratch = gradient * link[at]
            to_written = (precedence[at, None, :] @ gradient.mT)[:, 0] - scratch.sum(dim=2) - scratch.sum(dim=1)
            found.append((to_precedence, to_written, to_read))
            gradient.mul_(torch.sub(1 - rows, columns, out=scratch))
        return to_link, *(joined(parts) for parts in zip(*found))


def joined(parts: tuple[Tensor, ...]) -> Tensor:
    """What was found for parts of the batch, for all of it."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def blocks(link: Tensor) -> list[slice]:
    """Parts of the batch that are worked on together: few enough elements that the processor's cache holds their links.

    Every new matrix of the size of the batch's links costs more in page faults than a dozen passes over it.
    """
    batch, size, _ = link.shape
    count = max(1, BLOCK_ENTRIES // size**2) if link.device.type == "cpu" else batch
    return [slice(begin, begin + count) for begin in range(0, batch, count)]


def plain_gradients(inputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same gradients by autograd through the plain form, so that they can be differentiated again."""
    link, precedence, written, read = inputs
    after = dense_links(link, precedence, written)
    outputs = (after, *follow_links(after, read))
    given = [(output, grad) for output, grad in zip(outputs, grads) if grad is not None]
    wanted = [value for value in inputs if value.requires_grad]
    found = iter(torch.autograd.grad([o for o, _ in given], wanted, [g for _, g in given], create_graph=True))
    return tuple(next(found) if value.requires_grad else None for value in inputs)
