"""Errors over a data set: questions are counted, all of a split is taken, sizes reach the tasks that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sparsam.lab.tasks.babi.task import Babi
from sparsam.lab.tasks.task import Batch
from sparsam.lab.training.evaluate import evaluate
from sparsam.lab.training.seeds import MinibatchSeeds

SAMPLE = Path(__file__).parents[1] / "data" / "babi"


class FirstWord(nn.Module):
    """Always answers word 0."""

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, None]:
        return nn.functional.one_hot(torch.zeros(x.shape[:2], dtype=torch.int64), 2).float(), None


class Answers:
    """A data set of two minibatches: nine questions that are wrong, then one that is right."""

    name, input_size, output_size = "answers", 1, 2

    def __init__(self, sized: bool = False) -> None:
        self.sizes: list[int] = []
        if sized:
            self.sample_size = None  # what marks a task with sizes

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        raise AssertionError("a data set is not sampled to be evaluated")

    def evaluation_batches(self, split: str, batch_size: int, size: int = 1) -> Any:
        self.sizes.append(size)
        for steps, answer in ((9, 1), (1, 0)):
            targets = torch.full((steps, 1), answer)
            yield Batch(torch.zeros(steps, 1, 1), targets, torch.ones(steps, 1, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        return {"error_rate": float((outputs.argmax(-1) != batch.targets).float().mean())}


class Counted(Answers):
    """The same with a table that counts."""

    class Table:
        asked = wrong = 0

        def add(self, outputs: Tensor, batch: Batch) -> None:
            self.asked += batch.targets.numel()
            self.wrong += int((outputs.argmax(-1) != batch.targets).sum())

        def summary(self) -> dict[str, float]:
            return {"error_rate": self.wrong / self.asked}

    def table(self) -> Table:
        return self.Table()


def test_a_table_counts_answers_where_minibatches_would_be_averaged() -> None:
    assert evaluate(FirstWord(), Answers(), MinibatchSeeds(0), None)["error_rate"] == pytest.approx(0.5)
    counted = evaluate(FirstWord(), Counted(), MinibatchSeeds(0), None)
    assert list(counted) == ["error_rate", "loss"]
    assert counted["error_rate"] == pytest.approx(0.9)


def test_batches_ends_early_and_none_takes_all() -> None:
    assert evaluate(FirstWord(), Counted(), MinibatchSeeds(0), 1)["error_rate"] == 1.0
    assert evaluate(FirstWord(), Counted(), MinibatchSeeds(0), None)["error_rate"] == pytest.approx(0.9)


def test_size_reaches_a_data_set_that_has_sizes_and_is_refused_by_others() -> None:
    task = Answers(sized=True)
    evaluate(FirstWord(), task, MinibatchSeeds(0), None, size=7)
    assert task.sizes == [7]
    with pytest.raises(ValueError, match="size: expected None for task 'answers'"):
        evaluate(FirstWord(), Answers(), MinibatchSeeds(0), None, size=7)


def test_babi_is_the_mean_over_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path))
    task = Babi(SAMPLE, verify=False, validation=0.25)

    class Fixed(nn.Module):
        def forward(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, None]:
            return torch.arange(task.output_size).float().expand(*x.shape[:2], -1), None

    model = Fixed()
    found = evaluate(model, task, MinibatchSeeds(0), None, batch_size=3, split="test")
    assert found["error_rate"] == task.evaluate(model, "test", batch_size=7).mean
    assert {f"task_{number}" for number in set(task.test.tasks.tolist())} <= found.keys()
