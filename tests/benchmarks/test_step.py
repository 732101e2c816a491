"""What `sparsam bench step` measures beside its ratios."""

from __future__ import annotations

from benchmarks import step
from benchmarks.setting import model_of


def test_import_is_timed_in_a_process_of_its_own():
    (seconds,) = step.import_seconds(1)
    assert seconds > 0


def test_first_and_last_calls_are_told_apart():
    first, last = step.filling(model_of("sam", 100), 1, 20)
    assert first > 0 and last > 0
