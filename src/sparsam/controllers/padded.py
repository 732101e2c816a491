"""`nn.LSTM` over a padded batch, every element up to its own end.

torch's way is a `PackedSequence`. On a GPU that is one call of cuDNN. On a CPU it leaves the fused LSTM for a loop over
the steps whose backward pass allocates a whole sequence for every step of it, so that time grows with the square of T
(`sparsam bench padded`). There the batch is cut in time instead, wherever an element ends: between two cuts the
elements that are left are one plain call of `nn.LSTM`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sparsam.controllers.kind import why_changed
from sparsam.controllers.torch_modules import LSTMController
from sparsam.transfer import sent

Carried = tuple[Tensor, ...]  # h and c, (layers, B, H) each


def run_padded(lstm: Any, x: Tensor, carried: Carried, ends: Tensor) -> tuple[Tensor, Carried]:
    """Hidden states of x (T, B, I), of no account past the ends, and h and c of every element at its own end.

    `ends` (B,) are lengths in 0..T on the CPU; an element of length 0 keeps what it carried. A module that a user has
    changed is called once, with a `PackedSequence`.
    """
    plain = any(why_changed("controller", lstm, kind) is None for kind in (LSTMController, nn.LSTM))
    way = in_pieces if plain and x.device.type in ("cpu", "meta") and not torch.compiler.is_compiling() else packed
    return way(lstm, x, carried, ends)


def packed(lstm: Any, x: Tensor, carried: Carried, ends: Tensor) -> tuple[Tensor, Carried]:
    """One call with a `PackedSequence`; past the ends it leaves zeros, but for the first step of an empty element."""
    sequence = pack_padded_sequence(x, ends.clamp_min(1), enforce_sorted=False)  # torch refuses empty sequences
    sequence, after = lstm(sequence, carried)
    hidden, _ = pad_packed_sequence(sequence, total_length=x.shape[0])
    began = sent(ends > 0, x.device)[None, :, None]
    return hidden, tuple(torch.where(began, now, before) for now, before in zip(after, carried))


def in_pieces(lstm: Any, x: Tensor, carried: Carried, ends: Tensor) -> tuple[Tensor, Carried]:
    """A call for every stretch of time in which no element ends."""
    steps, batch = x.shape[:2]
    order = ends.argsort(descending=True, stable=True)  # the longest first: those that go on stand in front
    lengths = ends[order].tolist()
    x, carried = x[:, order], tuple(value[:, order] for value in carried)
    hidden: list[Tensor] = []
    ended: list[Carried] = []  # what elements carried at their ends, the shortest first
    begin = 0
    for end in sorted(set(lengths)):
        left = sum(length >= end for length in lengths)
        ended.append(tuple(value[:, left:] for value in carried))
        carried = tuple(value[:, :left].contiguous() for value in carried)
        if end > begin:
            piece, carried = lstm(x[begin:end, :left], carried)
            hidden.append(pad(piece, (0, 0, 0, batch - left)))
            begin = end
    ended.append(carried)
    if begin < steps or not hidden:
        hidden.append(x.new_zeros(steps - begin, batch, lstm.hidden_size))
    back = order.argsort()
    after = tuple(torch.cat([part.to(x.dtype) for part in parts], 1)[:, back] for parts in zip(*reversed(ended)))
    return torch.cat([piece.to(hidden[0].dtype) for piece in hidden])[:, back], after
