"""SAM and SDNC once more, in loops over plain numbers and dictionaries, written from their definition alone.

Shares no code with the package: rows are found by sorting Python lists, links are dictionaries, the ring
is a list and so is usage.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Row = dict[int, float]


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def softplus(z: float) -> float:
    return math.log1p(math.exp(z))


def softmax(z: list[float]) -> list[float]:
    powers = [math.exp(v - max(z)) for v in z]
    return [p / sum(powers) for p in powers]


def similarity(kind: str, q: np.ndarray, m: np.ndarray) -> float:
    if kind == "euclidean":
        return -float(((q - m) ** 2).sum())
    if kind == "dot":
        return float(q @ m)
    return float(q @ m) / (math.sqrt(q @ q) * math.sqrt(m @ m) + 1e-6)


def largest(row: Row, count: int) -> Row:
    """The `count` largest entries, ties to the lowest key."""
    return dict(sorted(row.items(), key=lambda entry: (-entry[1], entry[0]))[:count])


def update_links(before: list[Row], after: list[Row], p: Row, w: Row, k_links: int) -> tuple[list[Row], list[Row], Row]:
    """The paper's N (`before[i]`: what came before i), P (`after[j]`) and p, entry by entry."""
    old, changed_before, changed_after = [dict(row) for row in before], set(), set()
    before, after = [dict(row) for row in before], [dict(row) for row in after]
    for i, weight in w.items():
        for j in set(old[i]) | set(p):
            if j == i:
                continue
            before[i][j] = (1 - weight) * old[i].get(j, 0.0) + weight * p.get(j, 0.0)
            after[j][i] = (1 - weight) * after[j].get(i, 0.0) + weight * p.get(j, 0.0)
            changed_before.add(i)
            changed_after.add(j)
    for i in changed_before:
        before[i] = largest({j: v for j, v in before[i].items() if v > 0}, k_links)
    for j in changed_after:
        after[j] = largest({i: v for i, v in after[j].items() if v > 0}, k_links)
    keep = 1 - sum(w.values())
    p = {i: keep * p.get(i, 0.0) + w.get(i, 0.0) for i in set(p) | set(w)}
    return before, after, largest({i: v for i, v in p.items() if v > 0}, k_links)


class Oracle:
    """One batch element of SAM, or of SDNC when the model has links."""

    def __init__(self, model: Any, memory: np.ndarray | None) -> None:
        self.weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
        self.rows, self.width, self.heads, self.k = model.memory_size, model.word_size, model.num_heads, model.k
        self.kind, self.delta, self.k_links = model.similarity, model.delta, getattr(model, "k_links", None)
        self.h, self.c = np.zeros(model.hidden_size), np.zeros(model.hidden_size)
        self.r = np.zeros((self.heads, self.width))
        self.memory = np.zeros((self.rows, self.width)) if memory is None else memory.copy()
        self.previous: list[Row] = [{} for _ in range(self.heads)]
        self.ring = list(range(self.rows))
        self.before: list[Row] = [{} for _ in range(self.rows)]
        self.after: list[Row] = [{} for _ in range(self.rows)]
        self.p: Row = {}
        self.free = getattr(model, "allocation", "ring") == "free"
        self.usage = [0.0] * self.rows

    def step(self, x: np.ndarray) -> np.ndarray:
        self._controller(x)
        vector = self.weights["interface.weight"] @ self.h + self.weights["interface.bias"]
        n, words = self.heads, self.heads * self.width
        q = vector[:words].reshape(n, self.width)
        a = vector[words : 2 * words].reshape(n, self.width)
        scalars = vector[2 * words : 2 * words + 3 * n]
        beta = [1 + softplus(z) for z in scalars[:n]]
        alpha = [sigmoid(z) for z in scalars[n : 2 * n]]
        gamma = [sigmoid(z) for z in scalars[2 * n :]]
        unused, room = self.ring[:n], [1.0] * n
        if self.free:
            unused, room = self._least_used([sigmoid(z) for z in vector[2 * words + 6 * n :]])
        writes = self._write(a, alpha, gamma, unused, room)
        contents = [self._content(q[h], beta[h]) for h in range(n)]
        if self.k_links is None:
            reads = contents
        else:
            modes = vector[2 * words + 3 * n : 2 * words + 6 * n].reshape(n, 3)
            reads = self._linked_reads(writes, contents, [softmax(list(mode)) for mode in modes])
        for h, read in enumerate(reads):
            self.r[h] = sum((weight * self.memory[i] for i, weight in read.items()), np.zeros(self.width))
        used: Row = {}
        for access in [*writes, *reads]:
            for i, weight in access.items():
                used[i] = used.get(i, 0.0) + weight
        accessed = sorted(i for i, weight in used.items() if weight > self.delta)
        self.ring = [i for i in self.ring if i not in accessed] + accessed
        self.previous = reads
        for write in writes:
            assert all(weight >= 0 for weight in write.values())
        for i in {i for write in writes for i in write}:
            w = sum(write.get(i, 0.0) for write in writes) / n
            self.usage[i] = min(1.0, self.usage[i] + w - self.usage[i] * w)
        return self.weights["output.weight"] @ np.concatenate([self.h, self.r.ravel()]) + self.weights["output.bias"]

    def _controller(self, x: np.ndarray) -> None:
        gates = (
            self.weights["controller.weight_ih_l0"] @ np.concatenate([x, self.r.ravel()])
            + self.weights["controller.bias_ih_l0"]
            + self.weights["controller.weight_hh_l0"] @ self.h
            + self.weights["controller.bias_hh_l0"]
        ).reshape(4, -1)
        i, f, o = (np.array([sigmoid(z) for z in gates[g]]) for g in (0, 1, 3))
        self.c = f * self.c + i * np.tanh(gates[2])
        self.h = o * np.tanh(self.c)

    def _least_used(self, free: list[float]) -> tuple[list[int], list[float]]:
        """The rows to write anew and their room, once what was read before is freed."""
        for h, read in enumerate(self.previous):
            for i, weight in read.items():
                self.usage[i] *= 1 - free[h] * min(weight, 1.0)
        rows = sorted(range(self.rows), key=lambda i: (self.usage[i], i))[: self.heads]
        return rows, [1 - self.usage[i] for i in rows]

    def _write(
        self, a: np.ndarray, alpha: list[float], gamma: list[float], unused: list[int], room: list[float]
    ) -> list[Row]:
        writes = []
        for h in range(self.heads):
            write = {i: alpha[h] * gamma[h] * weight for i, weight in self.previous[h].items()}
            write[unused[h]] = write.get(unused[h], 0.0) + alpha[h] * (1 - gamma[h]) * room[h]
            writes.append(write)
        for u in unused:
            self.memory[u] = 0
        for h, write in enumerate(writes):
            for i, weight in write.items():
                self.memory[i] += weight * a[h]
        return writes

    def _content(self, q: np.ndarray, beta: float) -> Row:
        scores = {i: similarity(self.kind, q, self.memory[i]) for i in range(self.rows)}
        chosen = largest(scores, self.k)
        return dict(zip(chosen, softmax([beta * score for score in chosen.values()])))

    def _linked_reads(self, writes: list[Row], contents: list[Row], modes: list[list[float]]) -> list[Row]:
        w: Row = {}
        for write in writes:
            for i, weight in write.items():
                w[i] = w.get(i, 0.0) + weight / self.heads
        assert self.k_links is not None
        self.before, self.after, self.p = update_links(self.before, self.after, self.p, w, self.k_links)
        reads = []
        for h in range(self.heads):
            mixed: Row = {}
            parts = [(modes[h][0], self._follow(self.before, h)), (modes[h][1], contents[h])]
            parts.append((modes[h][2], self._follow(self.after, h)))
            for pi, part in parts:
                for i, weight in part.items():
                    mixed[i] = mixed.get(i, 0.0) + pi * weight
            reads.append(largest(mixed, self.k))
        return reads

    def _follow(self, links: list[Row], h: int) -> Row:
        found: Row = {}
        for j, weight in self.previous[h].items():
            for i, link in links[j].items():
                found[i] = found.get(i, 0.0) + weight * link
        return found
