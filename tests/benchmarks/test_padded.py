"""The three ways to run a padded batch that are timed are the same batch."""

from __future__ import annotations

from benchmarks import padded


def test_the_ways_agree() -> None:
    lstm, x, found = padded.ways(9, batch=3, units=5)
    assert list(found) == ["in pieces", "packed", "padding and all"]
    assert padded.difference(lstm, x, found) < 1e-5
    found["in pieces"], right = (lambda: 1.01 * right()), found["in pieces"]
    assert padded.difference(lstm, x, found) > 1e-3  # what is wrong is seen
