"""Recall of an index along a real sequence: what it let the model read, against what exact search finds there."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from sparsam.engines.reference.addressing import most_similar
from sparsam.models import SAM
from sparsam.trace import READ


class ReplayedSAM(SAM):
    """SAM of the reference engine that reads the rows it is handed, and notes which of them exact search finds too."""

    selections: Tensor  # (T, B, R, K), one step after the other
    step: int
    found: int  # of the true K rows, so far
    found_first: int

    @classmethod
    def of(cls, model: SAM, x: Tensor, memory: Tensor | None = None, state: Any = None) -> ReplayedSAM:
        """The same model, to be run on the same x from the same start, with the selections of its own engine."""
        twin = cls(
            model.input_size,
            model.output_size,
            model.hidden_size,
            model.memory_size,
            model.word_size,
            model.num_heads,
            model.k,
            similarity=model.similarity,
            delta=model.delta,
            batch_first=model.batch_first,
            engine="reference",
        ).to(model.output.weight)
        twin.load_state_dict(model.state_dict())
        if state is None:
            state = model.initial_state(x.shape[int(not model.batch_first)], memory)
        with torch.no_grad():
            accesses = model._run(x, state, None, record=True)[2]
        twin.selections = torch.cat([access.rows for access in accesses if access.kind == READ]).to(torch.int64)
        twin.step, twin.found, twin.found_first = 0, 0, 0
        return twin

    def select_rows(self, query: Tensor, words: Tensor) -> Tensor:
        rows = self.selections[self.step]
        truth = most_similar(self.similarity, query, words, self.k)
        found = (truth[..., :, None] == rows[..., None, :]).any(-1)
        self.step += 1
        self.found += int(found.sum())
        self.found_first += int(found[..., 0].sum())
        return rows

    @property
    def recall(self) -> float:
        """Share of the true K rows that were read."""
        return self.found / self.selections[: self.step].numel()

    @property
    def recall_first(self) -> float:
        """Share of the reads that had the most similar row among them."""
        return self.found_first * self.k / self.selections[: self.step].numel()


def recall_along(model: SAM, x: Tensor, state: Any = None) -> tuple[float, float]:
    """Recall of the true K rows, and of the first, over the steps of x from a state of the native engine."""
    twin = ReplayedSAM.of(model, x, state=state)
    if state is not None:
        state = dataclasses.replace(state, memory=state.memory.dense(), start=None)
    with torch.no_grad():
        twin(x, state)
    return twin.recall, twin.recall_first
