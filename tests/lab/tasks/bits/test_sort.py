from __future__ import annotations

import torch

from sparsam.lab.tasks.bits.sort import Sort


def test_best_sixteen_of_twenty_in_descending_order() -> None:
    task = Sort()
    batch = task.sample(4, torch.Generator().manual_seed(0))
    assert batch.inputs.shape == (37, 4, 8) and batch.level == 20
    priorities = batch.inputs[:20, :, 6]
    assert priorities.min() >= -1 and priorities.max() <= 1
    for b in range(4):
        order = sorted(range(20), key=lambda i: -float(priorities[i, b]))[:16]
        assert torch.equal(batch.targets[21:, b], batch.inputs[order, b, :6])
    assert (batch.inputs[20, :, 7] == 1).all() and (batch.inputs[21:] == 0).all()


def test_small_levels_answer_at_least_one_key() -> None:
    task = Sort()
    assert [task.answer_steps(n) for n in (1, 2, 4, 5, 10, 20)] == [1, 1, 3, 4, 8, 16]
    assert task.sample_size(2, torch.Generator(), 1).inputs.shape[0] == 3


def test_priorities_spread_over_the_interval() -> None:
    priorities = Sort().sample_size(8, torch.Generator().manual_seed(0), 1000).inputs[:1000, :, 6]
    assert abs(float(priorities.mean())) < 0.05 and abs(float(priorities.var()) - 1 / 3) < 0.03
