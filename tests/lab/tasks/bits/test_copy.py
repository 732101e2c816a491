from __future__ import annotations

import torch

from sparsam.lab.tasks.bits.copy import Copy


def test_items_then_delimiter_then_the_same_items() -> None:
    batch = Copy(bits=4).sample_size(3, torch.Generator().manual_seed(0), 5)
    assert batch.inputs.shape == (11, 3, 5)
    assert torch.equal(batch.targets[6:], batch.inputs[:5, :, :4])
    assert (batch.inputs[5, :, 4] == 1).all() and batch.inputs[..., 4].sum() == 3
    assert (batch.inputs[6:] == 0).all() and (batch.targets[:6] == 0).all()


def test_bits_are_fair_coins() -> None:
    items = Copy(bits=6).sample_size(8, torch.Generator().manual_seed(0), 2000).inputs[:2000, :, :6]
    assert set(items.unique().tolist()) == {0.0, 1.0}
    assert abs(float(items.mean()) - 0.5) < 0.01


def test_lengths_of_the_paper() -> None:
    generator = torch.Generator().manual_seed(0)
    task = Copy()
    assert {task.sample(1, generator).level for _ in range(400)} == set(range(1, 21))
