"""Dropout on the controller's way around the memory, and on nothing else."""

from __future__ import annotations

import torch

from sparsam.engines.reference.bypass import output_input


def test_the_controller_is_dropped_and_the_read_words_are_not():
    joined = output_input(torch.ones(4, 1000), torch.ones(4, 2, 3), 0.25, training=True)
    hidden, read = joined[:, :1000], joined[:, 1000:]
    assert read.shape == (4, 6) and (read == 1).all()
    assert set(hidden.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert 0.2 < (hidden == 0).float().mean() < 0.3


def test_nothing_is_dropped_after_training():
    assert (output_input(torch.ones(2, 5), torch.ones(2, 1, 3), 0.9, training=False) == 1).all()
