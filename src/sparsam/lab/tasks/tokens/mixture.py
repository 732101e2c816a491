"""Several token tasks for one model: a minibatch is drawn from one of them, each has tokens of its own.

The vocabularies stand one behind the other, so a token says which task it belongs to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from sparsam.lab.tasks.task import Batch, register
from sparsam.lab.tasks.tokens.task import TokenTask


@register
class TokenMixture(TokenTask):
    """`parts`: for each task its `name`, its `settings` and how often it is drawn (`weight`, 1 by default)."""

    name = "token_mixture"

    def __init__(self, parts: Sequence[dict[str, Any]]) -> None:
        from sparsam.lab.tasks import build

        if not parts:
            raise ValueError("parts: expected at least one task, got none")
        self.parts: list[Any] = []
        for part in parts:
            task = build(part["name"], **part.get("settings", {}))
            if not isinstance(task, TokenTask) or task.digits != 1:
                raise ValueError(f"parts: expected tasks over tokens of one digit, got {part['name']!r}")
            self.parts.append(task)
        self.weights = torch.tensor([float(part.get("weight", 1.0)) for part in parts])
        self.first = [sum(task.vocabulary for task in self.parts[:place]) for place in range(len(self.parts))]
        self.vocabulary = sum(task.vocabulary for task in self.parts)

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        part = int(torch.multinomial(self.weights, 1, generator=generator))
        return self.shifted(part, self.parts[part].sample(batch_size, generator, level))

    def shifted(self, part: int, batch: Batch) -> Batch:
        """A batch of one of the tasks in the tokens of the mixture."""
        first = self.first[part]
        info = {**batch.info, "part": self.parts[part].name}
        return dataclasses.replace(batch, inputs=batch.inputs + first, targets=batch.targets + first, info=info)

    def chance(self, size: int) -> float:
        return max(part.chance(size) for part in self.parts)
