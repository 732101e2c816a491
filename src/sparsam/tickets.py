"""Tickets: a state as ten small numbers, for containers that know only tensors.

    ticket = state.ticket()              # (B, 10) float32, one line for each batch element
    y, state = model(x, ticket)          # continues from that state
    ticket = (1 - done)[:, None] * ticket      # a line of zeros is a fresh state

The states stay in a table of this process, which keeps those used last (`keep`). A ticket is made of whole numbers in
0..255, exact in every floating-point type, so you can index, stack, pad with zeros, cast, share, save and load it. One
that was scaled or averaged, comes from another process, or has left the table, raises an error. Gradients do not pass
through a ticket: the state in the table is detached.

Across processes, and for buffers that outlive the table, use `state.pack`.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsam import checks
from sparsam.state import State, cat

WIDTH = 10  # three numbers for the process, four for the state, two for the batch element, one to check them
MOST_ELEMENTS = 2**16
_FACTORS = np.arange(3, 3 + 2 * (WIDTH - 1), 2)  # of the check number; odd, so that swapped columns are noticed


class Table:
    """The states that tickets stand for, those used last at the end."""

    def __init__(self, most: int = 4096) -> None:
        self.most = most
        self.states: OrderedDict[int, State] = OrderedDict()
        self.lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """A new process: what it puts in has numbers that no other process gives."""
        self.process, self.next = int.from_bytes(os.urandom(3), "little") | 1, 1

    def put(self, state: State) -> np.ndarray[Any, Any]:
        """The tickets (B, 10) of a state."""
        if state.batch_size > MOST_ELEMENTS:
            raise ValueError(f"state: expected at most {MOST_ELEMENTS} batch elements, got {state.batch_size}")
        with self.lock:
            if self.next == 2**32:
                self.begin()
            number = self.process + (self.next << 24)
            self.next += 1
            self.states[number] = state
            self.prune()
        lines = np.zeros((state.batch_size, 16), dtype=np.uint8)
        lines[:, :8] = np.frombuffer(np.array(number, dtype="<i8").tobytes(), dtype=np.uint8)
        element = np.arange(state.batch_size)
        lines[:, 7], lines[:, 8] = element & 255, element >> 8
        lines[:, 9] = check_number(lines[:, :9])
        return lines[:, :WIDTH].astype(np.float32)

    def find(self, number: int) -> State:
        """The state of this number, now the last used."""
        with self.lock:
            state = self.states.get(number)
            if state is not None:
                self.states.move_to_end(number)
        if state is None:
            if number & 0xFFFFFF != self.process:
                raise ValueError(
                    "state: expected a ticket of this process, got one of another; "
                    "state.pack() gives tensors that hold in every process"
                )
            raise ValueError(
                f"state: expected a ticket of the {self.most} states used last, got one of a state no longer kept; "
                "sparsam.tickets.keep(n) keeps more, state.pack() needs no table"
            )
        return state

    def prune(self) -> None:
        while len(self.states) > self.most:
            self.states.popitem(last=False)


TABLE = Table()


def after_fork() -> None:
    """In the child: states from before are its own copies, later ones get numbers of its own."""
    TABLE.begin()
    TABLE.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=TABLE.lock.acquire, after_in_parent=TABLE.lock.release, after_in_child=after_fork)


def keep(states: int | None = None) -> int:
    """How many states the table keeps; with a number, keep so many from now on."""
    if states is not None:
        TABLE.most = checks.positive_int("states", states)
        TABLE.prune()
    return TABLE.most


def check_number(lines: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return 1 + (lines.astype(np.int64) * _FACTORS).sum(axis=-1) % 255


def lstm_shaped(state: State) -> tuple[Tensor, Tensor]:
    """(h, c) of shape (1, B, 10), for a container that was made for `nn.LSTM`; `model(x, (h, c))` takes them."""
    ticket = state.ticket()[None]
    return ticket, ticket.clone()


def is_ticket(state: Any) -> bool:
    """Whether this is a tensor of tickets or (h, c) of them."""
    if isinstance(state, tuple):
        return len(state) == 2 and all(isinstance(v, Tensor) and v.dim() == 3 and v.shape[-1] == WIDTH for v in state)
    return isinstance(state, Tensor)


def redeem(ticket: Any, fresh: Callable[[int], State]) -> Any:
    """The state of tickets (B, 10), or of (h, c) of them; `fresh(n)` is the start of n elements, for lines of zeros."""
    if torch.compiler.is_compiling():
        raise TypeError("state: expected a State in a compiled graph, got tickets; model.state_of(ticket) gives it")
    if isinstance(ticket, tuple):
        if not torch.equal(*ticket):
            raise ValueError("state: expected h and c of one step, got tickets that differ")
        ticket = ticket[0]
        ticket = ticket[0] if ticket.shape[0] == 1 else ticket
    if ticket.dim() != 2 or ticket.shape[1] != WIDTH:
        raise ValueError(f"state: expected a State, or tickets of shape (B, {WIDTH}), got {tuple(ticket.shape)}")
    values = ticket.detach().to("cpu", torch.float64).numpy()
    lines = np.where((values >= 0) & (values <= 255), values, 0).astype(np.int64)
    begun = (values != 0).any(axis=1)
    if (lines != values).any() or (check_number(lines[:, :9]) != lines[:, 9])[begun].any():
        raise ValueError(
            "state: expected tickets as state.ticket() returned them, or lines of zeros, got other numbers"
        )
    numbers = (lines[:, :7] << (8 * np.arange(7))).sum(axis=1)
    elements = lines[:, 7] + (lines[:, 8] << 8)
    parts: list[State] = []
    order: list[np.ndarray[Any, Any]] = []
    for number in dict.fromkeys(numbers.tolist()):
        where = np.flatnonzero(numbers == number)
        if number == 0:
            parts.append(fresh(len(where)))
        else:
            state, at = TABLE.find(number), elements[where]
            whole = len(at) == len(state) and bool((at == np.arange(len(at))).all())
            parts.append(state if whole else state[torch.from_numpy(at)])
        order.append(where)
    if len(parts) == 1:
        return parts[0]
    return cat(parts)[torch.from_numpy(np.argsort(np.concatenate(order)))]
