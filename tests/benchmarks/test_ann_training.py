"""Training with each index: when the rate falls and when a run ends (what it leaves is in test_ann.py)."""

from __future__ import annotations

import pytest

from benchmarks import ann_training
from sparsam.lab.recipes.figure2 import OPTIMIZER


def test_the_rate_falls_from_the_first_good_evaluation_on() -> None:
    full = OPTIMIZER.learning_rate
    assert ann_training.rate_at(20_000, None) == full
    assert ann_training.rate_at(3_000, 3_000) == full
    assert ann_training.rate_at(8_000, 3_000) == pytest.approx(full / 10)
    assert ann_training.rate_at(100_000, 3_000) == pytest.approx(full / 20)


def test_one_lucky_evaluation_does_not_end_a_run() -> None:
    assert not ann_training.is_solved([0.0, 0.0, 0.0])
    assert not ann_training.is_solved([5.0, 1.0, 0.5, 0.0])
    assert ann_training.is_solved([5.0, 0.0, 0.05, 0.0, 0.0])
