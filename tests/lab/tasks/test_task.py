"""The protocol's shared parts: registry, loss, bits per sequence."""

from __future__ import annotations

import math

import pytest
import torch

from sparsam.lab import tasks
from sparsam.lab.tasks import Batch, Task

ALGORITHMIC = ("copy", "recall", "sort")


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_shapes_and_protocol(name: str) -> None:
    task = tasks.build(name)
    assert isinstance(task, Task)
    batch = task.sample(5, torch.Generator().manual_seed(1))
    steps = batch.inputs.shape[0]
    assert batch.inputs.shape == (steps, 5, task.input_size)
    assert batch.targets.shape == (steps, 5, task.output_size)
    assert batch.mask.shape == (steps, 5) and batch.mask.dtype == torch.bool
    assert batch.mask[batch.answers].all() and batch.mask.sum() == 5 * (batch.answers.stop - batch.answers.start)


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_same_seed_same_batch_and_another_seed_another(name: str) -> None:
    task = tasks.build(name)
    first, second, other = (task.sample(3, torch.Generator().manual_seed(s), 20) for s in (7, 7, 8))
    assert torch.equal(first.inputs, second.inputs) and torch.equal(first.targets, second.targets)
    assert first.inputs.shape != other.inputs.shape or not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_levels_are_uniform_from_one(name: str) -> None:
    task = tasks.build(name)
    generator = torch.Generator().manual_seed(0)
    drawn = [task.sample(1, generator, 4).level for _ in range(400)]
    assert set(drawn) == {1, 2, 3, 4}
    assert all(60 < drawn.count(level) < 140 for level in (1, 2, 3, 4))


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_errors_count_wrong_bits_of_masked_steps(name: str) -> None:
    task = tasks.build(name)
    batch = task.sample(4, torch.Generator().manual_seed(3))
    right = batch.targets * 2 - 1
    assert task.errors(right, batch) == {"bits_per_sequence": 0.0}
    wrong = right.clone()
    wrong[batch.answers.start, 1, 0] *= -1  # one bit of one of four sequences
    assert task.errors(wrong, batch) == {"bits_per_sequence": 0.25}
    outside = right.clone()
    outside[: batch.answers.start] = 100 * torch.randn_like(outside[: batch.answers.start])
    assert task.errors(outside, batch) == {"bits_per_sequence": 0.0}
    assert task.loss(outside, batch) == task.loss(right, batch)


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_loss_of_no_opinion_is_log_two_and_chance_is_half_the_bits(name: str) -> None:
    task = tasks.build(name)
    batch = task.sample_size(16, torch.Generator().manual_seed(3), 6)
    assert float(task.loss(torch.zeros_like(batch.targets), batch)) == pytest.approx(math.log(2))
    assert task.chance(6) == batch.mask[:, 0].sum() * task.output_size / 2


def test_mask_is_used_when_answers_are_not_one_run_of_steps() -> None:
    task = tasks.build("copy", bits=1)
    mask = torch.tensor([[True, False], [False, True]])
    batch = Batch(torch.zeros(2, 2, 2), torch.ones(2, 2, 1), mask)
    outputs = torch.tensor([[[1.0], [-1.0]], [[-1.0], [-1.0]]])
    assert task.errors(outputs, batch) == {"bits_per_sequence": 0.5}


def test_wrong_names_settings_and_shapes_are_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'recall'"):
        tasks.build("recal")
    with pytest.raises(ValueError, match="bots"):
        tasks.build("copy", bots=3)
    with pytest.raises(ValueError, match="min_size <= max_size"):
        tasks.build("copy", min_size=5, max_size=2)
    task = tasks.build("copy")
    with pytest.raises(ValueError, match="batch_size"):
        task.sample(0, torch.Generator())
    with pytest.raises(ValueError, match="level"):
        task.sample(1, torch.Generator(), 0)
    batch = task.sample(2, torch.Generator())
    with pytest.raises(ValueError, match="outputs"):
        task.loss(torch.zeros(1, 2, 6), batch)


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_level_200_000_is_lean(name: str) -> None:
    task = tasks.build(name)
    batch = task.sample_size(1, torch.Generator().manual_seed(0), 200_000)
    elements = batch.inputs.numel() + batch.targets.numel()
    assert elements <= 400_002 * (task.input_size + task.output_size)


@pytest.mark.parametrize("name", ALGORITHMIC)
def test_every_part_of_a_batch_can_be_pinned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pin(value: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(value.size(), value.stride()).copy_(
            value
        )  # refuses shared elements, as pinning does

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    batch = tasks.build(name).sample(3, torch.Generator().manual_seed(0))
    pinned = batch.pinned()
    assert torch.equal(pinned.mask, batch.mask.float()) and torch.equal(pinned.inputs, batch.inputs)
