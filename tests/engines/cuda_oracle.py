"""SAM's and the SDNC's memory with any cell in plain PyTorch, written for these tests alone, from the specification."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class Oracle:
    """One sequence of one call; `gap` is how close two scores came that were not the same: below it a tie may break."""

    def __init__(self, sizes, cell: str, weights, memory: Tensor) -> None:
        self.sizes, self.cell, self.weights = sizes, cell, weights
        batch, rows, _ = memory.shape
        self.words = memory
        self.last_access = torch.zeros(batch, rows, dtype=torch.int64)
        self.clock = torch.zeros(batch, dtype=torch.int64)
        self.before = torch.zeros(batch, rows, rows)  # N
        self.after = torch.zeros(batch, rows, rows)  # P
        self.now = torch.zeros(batch, rows)  # p
        self.gap = float("inf")

    def run(self, x, hidden, cell, read, read_rows, read_weights, ends):
        """[h, r] of every step, and the state after the last."""
        outputs, state = [], (hidden, cell, read, read_rows, read_weights)
        for t in range(x.shape[0]):
            kept = (self.words, self.last_access, self.clock, self.before, self.after, self.now)
            new = self.step(x[t], *state)
            active = t < ends
            state = tuple(_blend(active, a, b) for a, b in zip(new, state))
            names = ("words", "last_access", "clock", "before", "after", "now")
            for name, old in zip(names, kept):
                setattr(self, name, _blend(active, getattr(self, name), old))
            joint = new[2].flatten(1) if hidden is None else torch.cat([new[0], new[2].flatten(1)], dim=1)
            outputs.append(joint * active[:, None])
        return torch.stack(outputs), state

    def control(self, x, hidden, cell, read):
        w = self.weights
        inputs = torch.cat([x, read.flatten(1)], dim=1)
        if self.cell == "lstm":
            return torch.lstm_cell(inputs, (hidden, cell), w.input, w.hidden, w.input_bias, w.hidden_bias)
        return torch.gru_cell(inputs, hidden, w.input, w.hidden, w.input_bias, w.hidden_bias), None

    def step(self, x, hidden, cell, read, read_rows, read_weights):
        s, asked = self.sizes, x
        if self.cell != "none":
            hidden, cell = self.control(x, hidden, cell, read)
            asked = F.linear(hidden, self.weights.interface, self.weights.interface_bias)
        heads, width = s.heads, s.width
        batch, rows = self.words.shape[:2]
        query, word, beta, alpha, gamma, modes = asked.split(
            [heads * width] * 2 + [heads] * 3 + [3 * heads if s.k_links else 0], dim=1
        )
        query, word = query.view(batch, heads, width), word.view(batch, heads, width)
        beta, alpha, gamma = 1 + F.softplus(beta), alpha.sigmoid(), gamma.sigmoid()
        unused = self.last_access.sort(dim=1, stable=True).indices[:, :heads]
        there = (read_rows >= 0).float()
        fresh = torch.zeros(batch, heads, rows).scatter(2, unused[..., None], 1.0)
        previous = torch.zeros(batch, heads, rows).scatter_add(2, read_rows.clamp_min(0), read_weights * there)
        write = alpha[..., None] * (gamma[..., None] * previous + (1 - gamma)[..., None] * fresh)
        self.words = self.words * (1 - fresh.sum(1))[..., None] + torch.einsum("bhn,bhw->bnw", write, word)
        score = self.similarity(query)
        found = self.largest(score.detach(), s.k)
        content = torch.softmax(beta[..., None] * score.gather(2, found), dim=2)
        if s.k_links:
            self.link(write.detach().sum(1) / heads)
            pi = modes.view(batch, heads, 3).softmax(2)
            dense = torch.zeros_like(score).scatter(2, found, content)
            mixed = (
                pi[..., :1] * (previous @ self.before) + pi[..., 1:2] * dense + pi[..., 2:] * (previous @ self.after)
            )
            candidate = (mixed.detach() > 0).scatter(2, found, True)
            found = self.largest(torch.where(candidate, mixed.detach(), -1.0), s.k)
            content = mixed.gather(2, found)
        chosen = self.words.gather(1, found.flatten(1)[..., None].expand(-1, -1, width)).view(batch, heads, s.k, width)
        read = (content[..., None] * chosen).sum(2)
        used = write.detach().sum(1).scatter_add(1, found.flatten(1), content.detach().flatten(1))
        self.clock = self.clock + 1
        self.last_access = torch.where(used > s.delta, self.clock[:, None], self.last_access)
        self.gap = min(self.gap, float((used - s.delta).abs().min()))
        return hidden, cell, read, found, content

    def similarity(self, query):
        if self.sizes.similarity == "euclidean":
            return -(query[:, :, None] - self.words[:, None]).square().sum(3)
        dot = torch.einsum("bhw,bnw->bhn", query, self.words)
        if self.sizes.similarity == "dot":
            return dot
        return dot / (query.norm(dim=2)[..., None] * self.words.norm(dim=2)[:, None] + 1e-6)

    def largest(self, values, count):
        ordered, order = values.sort(dim=2, descending=True, stable=True)
        near = (ordered[..., :-1] - ordered[..., 1:])[..., :count]
        if near.numel() and (near > 0).any():
            self.gap = min(self.gap, float(near[near > 0].min()))
        return order[..., :count]

    def link(self, w):
        """N, P and p after averaged write weights w (B, N)."""
        decay, p = (1 - w).clamp_min(0), self.now
        off = 1 - torch.eye(w.shape[1])
        changed = (w[:, :, None] > 0) & ((p[:, None, :] > 0) | (self.before > 0)) & (off > 0)
        moved = decay[:, :, None] * self.after.mT + w[:, :, None] * p[:, None, :]
        self.after = self.keep(torch.where(changed, moved, self.after.mT).mT)
        self.before = self.keep((decay[:, :, None] * self.before + w[:, :, None] * p[:, None, :]) * off)
        self.now = self.keep(((1 - w.sum(1, keepdim=True)).clamp_min(0) * p + w)[:, None])[:, 0]

    def keep(self, entries):
        order = self.largest(entries, min(self.sizes.k_links, entries.shape[2]))
        return torch.zeros_like(entries).scatter(2, order, entries.gather(2, order))


def _blend(active, new, old):
    if new is None:
        return None
    return torch.where(active.view(-1, *[1] * (new.dim() - 1)), new, old)
