"""The memory of the Differentiable Neural Computer (Graves 2016; section D): allocation, temporal links, read modes."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from sparsam import checks
from sparsam.memories.addressing import Addressing
from sparsam.memories.interface import Field, Interface
from sparsam.memories.memory import DenseMemoryModel, Step, dense_read, erase_and_add
from sparsam.state import State
from sparsam.trace import READ, WRITE, DenseAccess
from sparsam.transforms import is_batched, needs_plain_operations

BLOCK_ENTRIES = 2**20  # of the link matrices that `LinkStep` works on together


class DNCState(State):
    read: Tensor  # r (B, R, W)
    read_weights: Tensor  # w^R (B, R, N)
    write_weights: Tensor  # w^W (B, N)
    usage: Tensor  # u (B, N)
    precedence: Tensor  # p (B, N)
    link: Tensor  # L (B, N, N)
    memory: Tensor  # M (B, N, W)
    start: DNCState | None = None


class DNCMemory(DenseMemoryModel):
    """R read heads and one write head over N words; writes first, then reads.

    A blank memory is all zero; usage, links, precedence and weights start at zero. Only the order by usage is a
    constant for the gradient. With `deallocate` a word that is freed loses its content, M(i) psi(i), and not its usage
    alone (Csordas and Schmidhuber 2019): the free gates of Graves 2016 leave words that content addressing goes on
    finding.
    """

    name = "dnc"
    state_class = DNCState

    def __init__(
        self, rows: int, width: int, heads: int, addressing: Addressing | None = None, deallocate: bool = False
    ) -> None:
        super().__init__(rows, width, heads)
        self.addressing = Addressing() if addressing is None else addressing
        self.deallocate = checks.boolean("deallocate", deallocate)

    @property
    def interface(self) -> Interface:
        """The order of Graves 2016; what parts add comes last, masks of the read keys and then of the write key."""
        heads, width = self.heads, self.width
        fields = (
            Field("read_keys", (heads, width), role="query"),
            Field("read_strengths", (heads,), "one_plus", "sharpness"),
            Field("write_key", (1, width), role="query"),
            Field("write_strength", (1,), "one_plus", "sharpness"),
            Field("erase", (1, width), "sigmoid"),
            Field("write_word", (1, width), role="word"),
            Field("free_gates", (heads,), "sigmoid"),
            Field("allocation_gate", (1,), "sigmoid", "allocate"),
            Field("write_gate", (1,), "sigmoid", "write"),
            # backward, content, forward
            Field("read_modes", (heads, 3), "softmax", parts=(("lookup", 1, 3 * heads, 3),)),
        )
        return Interface(fields + self.addressing.fields(heads + 1, width))

    def fewest(self) -> tuple[str, int]:
        return "num_heads + 1", self.heads + 1

    def options(self) -> dict[str, Any]:
        return {**self.addressing.options, **({"deallocate": True} if self.deallocate else {})}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "read": (self.heads, self.width),
            "read_weights": (self.heads, self.rows),
            "write_weights": (self.rows,),
            "usage": (self.rows,),
            "precedence": (self.rows,),
            "link": (self.rows, self.rows),
            "memory": (self.rows, self.width),
        }

    def fresh(self, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        return {
            **self.zeros(batch, like, besides=("memory", "link")),
            "link": like.new_zeros(1, 1, 1).expand(batch, self.rows, self.rows),  # no bytes before the first write
            "memory": self.starting_words(batch, initial, like),
        }

    def step(self, vector: Tensor, state: Any) -> Step:
        """Usage and allocation, the write, the links, then the reads (Graves 2016, Methods)."""
        request = self.interface.split(vector)
        content_weights, readers, writer = self.addressing.dense_weights, slice(self.heads), slice(self.heads, None)
        retained = retention(request["free_gates"], state.read_weights)
        usage = dnc_usage(state.usage, state.write_weights, retained)
        content = content_weights(request["write_key"], request["write_strength"], state.memory, request, writer)
        allocated = torch.lerp(content[:, 0], allocation_weights(usage), request["allocation_gate"])
        w_write = request["write_gate"] * allocated
        kept = state.memory * retained[..., None] if self.deallocate else state.memory
        words = erase_and_add(kept, w_write[:, None], request["erase"], request["write_word"])
        link, forward, backward = link_step(state.link, state.precedence, w_write, state.read_weights)
        precedence = precedence_weights(state.precedence, w_write)
        content = content_weights(request["read_keys"], request["read_strengths"], words, request, readers)
        w_read = mix_modes(request["read_modes"], backward, content, forward)
        read = dense_read(w_read, words)
        fields = {
            "read": read,
            "read_weights": w_read,
            "write_weights": w_write,
            "usage": usage,
            "precedence": precedence,
            "link": link,
            "memory": words,
        }
        return read, fields, [DenseAccess(WRITE, w_write[:, None]), DenseAccess(READ, w_read)]


# --- Dynamic memory allocation (Graves 2016, Methods) ---


def retention(free_gates: Tensor, read_weights: Tensor) -> Tensor:
    """psi_t = prod_r (1 - f_r w^R_{t-1,r}), (B, N): how much of each word stays; free gates f (B, R)."""
    kept = 1 - free_gates[..., None] * read_weights
    return functools.reduce(torch.mul, kept.unbind(1))


def dnc_usage(usage: Tensor, write_weights: Tensor, retained: Tensor) -> Tensor:
    """u_t = (u_{t-1} + w^W_{t-1} - u_{t-1} w^W_{t-1}) psi_t with `retention` psi_t, all (B, N)."""
    return (usage + write_weights - usage * write_weights) * retained


def allocation_weights(usage: Tensor) -> Tensor:
    """a(phi_j) = (1 - u(phi_j)) prod_{i<j} u(phi_i), phi the rows in ascending order of usage (B, N).

    The order is a constant for the gradient, ties in it go to the lowest row; the rest is differentiated.
    """
    ascending, order = usage.sort(dim=-1, stable=True)
    before = ascending.cumprod(dim=-1).roll(1, dims=-1).clone()
    before[:, 0] = 1.0
    return (1 - ascending).mul(before).gather(-1, order.argsort(dim=-1))


# --- Temporal links (Graves 2016, Methods; section D.1 of the paper) ---


def dense_links(link: Tensor, precedence: Tensor, write_weights: Tensor) -> Tensor:
    """L_t(i,j) = (1 - w(i) - w(j)) L_{t-1}(i,j) + w(i) p_{t-1}(j), and 0 on the diagonal; L (B, N, N), w, p (B, N)."""
    rows, columns = write_weights[:, :, None], write_weights[:, None, :]
    eye = torch.eye(link.shape[-1], dtype=torch.bool, device=link.device)
    return ((1 - rows - columns) * link + rows * precedence[:, None, :]).masked_fill(eye, 0.0)


def precedence_weights(precedence: Tensor, write_weights: Tensor) -> Tensor:
    """p_t = (1 - sum_i w(i)) p_{t-1} + w, (B, N)."""
    return (1 - write_weights.sum(dim=-1, keepdim=True)) * precedence + write_weights


def follow_links(link: Tensor, read_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Forward f = L w^R_{t-1} and backward b = L^T w^R_{t-1}, each (B, R, N)."""
    return read_weights @ link.mT, read_weights @ link


def mix_modes(modes: Tensor, backward: Tensor, content: Tensor, forward: Tensor) -> Tensor:
    """w^R = pi_b b + pi_c c + pi_f f; modes pi (B, R, 3) in that order, weights (B, R, N)."""
    pi_b, pi_c, pi_f = modes.unsqueeze(-2).unbind(dim=-1)
    return pi_b * backward + pi_c * content + pi_f * forward


def link_step(link: Tensor, precedence: Tensor, written: Tensor, read: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L_t of `dense_links`, and f = L_t w^R_{t-1}, b = L_t^T w^R_{t-1} of `follow_links`, as one operation.

    Link (B, N, N), precedence p_{t-1} and write weights w (B, N), previous read weights (B, R, N). Plain autograd walks
    over the (B, N, N) matrices some twenty times a step and keeps three of them; this needs a handful of passes and
    keeps one.
    """
    if needs_plain_operations():
        after = dense_links(link, precedence, written)
        return after, *follow_links(after, read)
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
        # The gradient itself is to be differentiated, or there are several in one.
        if torch.is_grad_enabled() or any(map(is_batched, grads)):
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
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def blocks(link: Tensor) -> list[slice]:
    """Slices of the batch to work on together: few enough elements for the processor's cache to hold their links.

    Every new matrix of the size of the batch's links costs more in page faults than a dozen passes over it.
    """
    batch, size, _ = link.shape
    count = max(1, BLOCK_ENTRIES // size**2) if link.device.type == "cpu" else batch
    return [slice(begin, begin + count) for begin in range(0, batch, count)]


def plain_gradients(inputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same gradients by autograd through the plain form, so that they can be differentiated again."""
    with torch.enable_grad():
        inputs = tuple(value.view_as(value) for value in inputs)  # none of them comes from another one
        link, precedence, written, read = inputs
        after = dense_links(link, precedence, written)
        outputs = (after, *follow_links(after, read))
    given = [(output, grad) for output, grad in zip(outputs, grads) if grad is not None]
    wanted = [value for value in inputs if value.requires_grad]
    found = iter(torch.autograd.grad([o for o, _ in given], wanted, [g for _, g in given], create_graph=True))
    return tuple(next(found) if value.requires_grad else None for value in inputs)
