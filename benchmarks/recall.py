"""Recall of an index along a real sequence: what it let the model read, against what exact search finds there."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from sparsam.memories.addressing import most_similar
from sparsam.memories.sam import SAMMemory
from sparsam.models import SAM
from sparsam.trace import READ


class ReplayedMemory(SAMMemory):
    """SAM's plain memory that reads the rows it is handed, and notes which of them exact search finds too."""

    selections: Tensor  # (T, B, R, K), one step after the other
    at = 0  # the next step
    found = 0  # of the true K rows, so far
    found_first = 0
    found_by_head: Tensor | int = 0  # (R,)
    queries: list[Tensor]  # (B, R, W) of each step so far

    def select_rows(self, query: Tensor, words: Tensor) -> Tensor:
        rows = self.selections[self.at]
        truth = most_similar(self.sizes.similarity, query, words, self.sizes.k)
        found = (truth[..., :, None] == rows[..., None, :]).any(-1)
        self.at += 1
        self.queries.append(query)
        self.found += int(found.sum())
        self.found_first += int(found[..., 0].sum())
        self.found_by_head = self.found_by_head + found.sum((0, 2))
        return rows

    @property
    def recall(self) -> float:
        """Share of the true K rows that were read."""
        return self.found / self.selections[: self.at].numel()

    @property
    def recall_by_head(self) -> Tensor:
        """The same for each head."""
        steps, batch, _, k = self.selections[: self.at].shape
        return torch.as_tensor(self.found_by_head) / (steps * batch * k)

    @property
    def recall_first(self) -> float:
        """Share of the reads that had the most similar row among them."""
        return self.found_first * self.sizes.k / self.selections[: self.at].numel()


def replayed(model: SAM, x: Tensor, memory: Tensor | None = None, state: Any = None) -> Any:
    """The same model on the reference engine, for the same x from the same start, with `model`'s selections."""
    if state is None:
        state = model.initial_state(x.shape[int(not model.batch_first)], memory)
    with torch.no_grad():
        accesses = model._run(x, state, None, None, record=True)[2]
    twin = copy.deepcopy(model)
    twin.engine, twin.index = "reference", "linear"
    twin.memory = ReplayedMemory(twin.memory.sizes)
    twin.memory.queries = []
    twin.memory.selections = torch.cat([access.rows for access in accesses if access.kind == READ]).to(torch.int64)
    return twin


def recall_along(model: SAM, x: Tensor, state: Any = None) -> tuple[float, float]:
    """Recall of the true K rows, and of the first, over the steps of x from a state of the native engine."""
    twin = replayed(model, x, state=state)
    with torch.no_grad():
        twin(x, None if state is None else state.to(engine="reference"))
    return twin.memory.recall, twin.memory.recall_first
