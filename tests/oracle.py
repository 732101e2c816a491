"""SAM and SDNC for one batch element in plain PyTorch, dense and slow: what every engine is compared with.

It follows the specification alone and shares no code with the engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class Sizes:
    """The same arguments as the core's `Sizes`."""

    rows: int
    width: int
    heads: int
    k: int
    similarity: str = "cosine"
    delta: float = 0.005
    k_links: int = 0
    link_gradients: bool = False
    free_usage: bool = False
    erase: bool = False

    def fields(self) -> dict[str, int]:
        """Fields of the interface vector and their sizes."""
        sizes = {"query": self.heads * self.width, "write_word": self.heads * self.width}
        sizes |= {"strength": self.heads, "write_gate": self.heads, "interpolation": self.heads}
        if self.k_links:
            sizes["read_modes"] = 3 * self.heads
        if self.free_usage:
            sizes["free_gates"] = self.heads
        if self.erase:
            sizes["erase"] = self.heads
        return sizes

    @property
    def interface(self) -> int:
        return sum(self.fields().values())


@dataclass
class Memory:
    """State of one element."""

    words: Tensor  # (N, W)
    read: Tensor  # (R, W)
    weights: Tensor  # (R, K)
    rows: list[list[int]]  # (R, K), -1 for none
    ring: list[int]
    before: Tensor  # N (N, N)
    after: Tensor  # P (N, N)
    precedence: Tensor  # p (N)
    usage: Tensor  # (N), a constant
    reads: list[Any] = field(default_factory=list)
    writes: list[Any] = field(default_factory=list)
    gap: float = float("inf")  # how near two numbers came that were compared and not the same


def fresh(s: Sizes, words: Tensor | None = None) -> Memory:
    zeros = lambda *shape: torch.zeros(*shape, dtype=torch.float64)  # noqa: E731
    return Memory(
        zeros(s.rows, s.width) if words is None else words,
        zeros(s.heads, s.width),
        zeros(s.heads, s.k),
        [[-1] * s.k for _ in range(s.heads)],
        list(range(s.rows)),
        zeros(s.rows, s.rows),
        zeros(s.rows, s.rows),
        zeros(s.rows),
        zeros(s.rows),
    )


def largest(m: Memory, values: Tensor, among: list[int], count: int) -> list[int]:
    """The `count` rows of largest value, ties to the lowest."""
    rows = sorted(among, key=lambda row: (-values[row].item(), row))
    ordered = [values[row].item() for row in rows[: count + 1]]
    m.gap = min([m.gap, *(a - b for a, b in pairwise(ordered) if a > b)])
    return rows[:count]


def scores(s: Sizes, query: Tensor, words: Tensor) -> Tensor:
    if s.similarity == "euclidean":
        return -((query - words) ** 2).sum(-1)
    products = words @ query
    if s.similarity == "dot":
        return products
    norms = torch.sqrt((words**2).sum(-1) + 1e-300)  # differentiable at zero
    return products / (torch.sqrt((query**2).sum() + 1e-300) * norms + 1e-6)


def _kept(s: Sizes, m: Memory, row: Tensor) -> Tensor:
    """A row of links with its K_L largest entries above 0."""
    keep = torch.zeros_like(row)
    keep[largest(m, row, [i for i in range(s.rows) if row[i] > 0], s.k_links)] = 1
    return row * keep


def _link(s: Sizes, m: Memory, w: Tensor) -> None:
    """N, P and p after the averaged write weights w."""
    before, after, p = m.before, m.after, m.precedence
    if not s.link_gradients:
        w = w.detach()
    rows_before, rows_after = list(before), list(after)
    changed: set[int] = set()
    for i in range(s.rows):
        if not w[i] > 0:
            continue
        decay = (1 - w[i]).clamp(min=0)
        others = torch.ones(s.rows, dtype=w.dtype)
        others[i] = 0
        rows_before[i] = _kept(s, m, (decay * before[i] + w[i] * p) * others)
        for j in range(s.rows):
            if j != i and (p[j] > 0 or before[i, j] > 0):
                unit = torch.zeros(s.rows, dtype=w.dtype)
                unit[i] = 1
                rows_after[j] = rows_after[j] * (1 - unit) + unit * (decay * after[j, i] + w[i] * p[j])
                changed.add(j)
    for j in changed:
        rows_after[j] = _kept(s, m, rows_after[j])
    m.before, m.after = torch.stack(rows_before), torch.stack(rows_after)
    m.precedence = _kept(s, m, (1 - w.sum()).clamp(min=0) * p + w)


def step(s: Sizes, vector: Tensor, m: Memory) -> Tensor:
    """One step; returns r (R W) and changes `m`."""
    part = dict(zip(s.fields(), vector.split(list(s.fields().values()))))
    query, word = part["query"].view(s.heads, s.width), part["write_word"].view(s.heads, s.width)
    beta = 1 + F.softplus(part["strength"])
    alpha, gamma = part["write_gate"].sigmoid(), part["interpolation"].sigmoid()
    usage, room = m.usage, torch.ones(s.heads, dtype=vector.dtype)
    if s.free_usage:
        gates = part["free_gates"].sigmoid()
        for h in range(s.heads):
            for i, row in enumerate(m.rows[h]):
                if row >= 0:
                    unit = torch.zeros(s.rows, dtype=vector.dtype)
                    unit[row] = 1
                    usage = usage * (1 - unit * gates[h] * m.weights[h, i].clamp(max=1))
        unused = sorted(range(s.rows), key=lambda row: (usage[row].item(), row))[: s.heads]
        room = torch.stack([1 - usage[row] for row in unused])
    else:
        unused = m.ring[: s.heads]
    dense, write_rows, write_weights = [], [], []
    for h in range(s.heads):
        one = torch.zeros(s.rows, dtype=vector.dtype)
        kept = []
        for i, row in enumerate(m.rows[h]):
            kept.append(alpha[h] * gamma[h] * m.weights[h, i])
            if row >= 0:
                one = one.index_add(0, torch.tensor([row]), kept[-1][None])
        new = alpha[h] * (1 - gamma[h]) * room[h]
        one = one.index_add(0, torch.tensor([unused[h]]), new[None])
        dense.append(one)
        write_rows.append([*m.rows[h], unused[h]])
        write_weights.append(torch.stack([*kept, new]))
    written = torch.stack(dense)  # (R, N)
    erased = torch.ones(s.rows, 1, dtype=vector.dtype)
    erased[unused] = 0
    for h in range(s.heads if s.erase else 0):
        for i, row in enumerate(m.rows[h]):
            if row >= 0:
                unit = torch.zeros(s.rows, 1, dtype=vector.dtype)
                unit[row] = 1
                erased = erased * (1 - unit * part["erase"][h].sigmoid() * write_weights[h][i])
    m.words = m.words * erased + written.T @ word
    w = written.sum(0) / s.heads
    if s.k_links:
        _link(s, m, w)
    read, rows, weights = [], [], []
    for h in range(s.heads):
        similar = scores(s, query[h], m.words)
        found = largest(m, similar, list(range(s.rows)), s.k)
        content = torch.softmax(beta[h] * similar[found], -1)
        if s.k_links:
            modes = torch.softmax(part["read_modes"].view(s.heads, 3)[h], -1)
            mixed = torch.zeros(s.rows, dtype=vector.dtype)
            for i, row in enumerate(m.rows[h]):
                if row >= 0:  # b and f
                    mixed = mixed + m.weights[h, i] * (modes[0] * m.before[row] + modes[2] * m.after[row])
            mixed = mixed.index_add(0, torch.tensor(found), modes[1] * content)
            among = [row for row in range(s.rows) if mixed[row] > 0 or row in found]
            found = largest(m, mixed, among, s.k)
            content = mixed[found]
        read.append(content @ m.words[found])
        rows.append(found)
        weights.append(content)
    m.rows, m.weights, m.read = rows, torch.stack(weights), torch.stack(read)
    touched = written.sum(0).detach().clone()
    for h in range(s.heads):
        touched[rows[h]] += weights[h].detach()
    if s.free_usage:
        m.usage = (usage + w - usage * w).detach().clamp(0, 1)
    else:
        m.gap = min(m.gap, (touched - s.delta).abs().min().item())
        back_rows = [row for row in range(s.rows) if touched[row] > s.delta]
        m.ring = [row for row in m.ring if row not in back_rows] + back_rows
    m.reads.append((rows, m.weights))
    m.writes.append((write_rows, torch.stack(write_weights)))
    return m.read.flatten()


def gates(cell: str, x: Tensor, h: Tensor, c: Tensor | None, w: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """h_t and c_t of an LSTM or a GRU, as torch.nn has them."""
    from_x, from_h = w["w_ih"] @ x + w["b_ih"], w["w_hh"] @ h + w["b_hh"]
    if cell == "lstm":
        i, f, g, o = (from_x + from_h).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    (xr, xz, xn), (hr, hz, hn) = from_x.chunk(3), from_h.chunk(3)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    return (1 - z) * (xn + r * hn).tanh() + z * h, None


def run(model: Any, x: Tensor, words: Tensor | None = None) -> tuple[Tensor, Memory]:
    """y (T, O) of SAM or SDNC with an LSTM for one element's x (T, I) and first words (N, W), and the memory after."""
    s = Sizes(model.memory_size, model.word_size, model.num_heads, model.k, model.similarity, model.delta)
    s.k_links = getattr(model, "k_links", 0)
    s.link_gradients = getattr(model, "link_gradients", False)
    s.free_usage = getattr(model, "allocation", "ring") == "free"
    made = dict(model.named_parameters())
    names = {"w_ih": "weight_ih_l0", "w_hh": "weight_hh_l0", "b_ih": "bias_ih_l0", "b_hh": "bias_hh_l0"}
    weights = {name: made[f"controller.{key}"] for name, key in names.items()}
    m, h, outputs = fresh(s, words), x.new_zeros(model.hidden_size), []
    c: Tensor | None = h
    for x_t in x:
        h, c = gates("lstm", torch.cat([x_t, m.read.flatten()]), h, c, weights)
        read = step(s, F.linear(h, made["interface.weight"], made["interface.bias"]), m)
        outputs.append(F.linear(torch.cat([h, read]), made["output.weight"], made["output.bias"]))
    return torch.stack(outputs), m
