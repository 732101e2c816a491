"""The rule on made-up losses."""

from __future__ import annotations

import pytest

from sparsam.lab.training.config import CurriculumConfig
from sparsam.lab.training.curriculum import Curriculum


def make(**settings: object) -> Curriculum:
    return Curriculum(CurriculumConfig(**({"start": 2, "threshold": 0.1, "patience": 3} | settings)))  # type: ignore[arg-type]


def test_doubles_when_the_mean_of_patience_losses_is_below_the_threshold() -> None:
    curriculum = make()
    assert [curriculum.update(0.05) for _ in range(7)] == [False, False, True, False, False, True, False]
    assert curriculum.level == 8


def test_a_single_good_minibatch_is_not_enough_and_the_mean_counts() -> None:
    curriculum = make()
    assert not any(curriculum.update(loss) for loss in (0.5, 0.0, 0.0, 0.31))
    assert curriculum.level == 2
    assert curriculum.update(0.0) is False  # 0 + 0.31 + 0 is still 0.1033 on average
    assert curriculum.update(0.0) is False
    assert curriculum.update(0.0) is True


def test_a_mean_on_the_threshold_does_not_count() -> None:
    curriculum = make(threshold=0.25)
    assert not any(curriculum.update(0.25) for _ in range(20))


def test_the_count_starts_again_after_a_rise() -> None:
    curriculum = make()
    for _ in range(3):
        curriculum.update(0.0)
    assert curriculum.level == 4
    assert [curriculum.update(0.0), curriculum.update(0.0)] == [False, False]


def test_stops_at_the_highest_level() -> None:
    curriculum = make(start=3, max_level=10)
    levels = []
    for _ in range(30):
        if curriculum.update(0.0):
            levels.append(curriculum.level)
    assert levels == [6, 10]


def test_state_goes_on_where_it_was() -> None:
    losses = [0.3, 0.01, 0.2, 0.05, 0.01, 0.01, 0.02, 0.3, 0.0, 0.0, 0.1, 0.0, 0.0] * 3
    whole, first = make(), make()
    expected = [(whole.update(loss), whole.level) for loss in losses]
    seen = [(first.update(loss), first.level) for loss in losses[:8]]
    second = make()
    second.load_state_dict(first.state_dict())
    seen += [(second.update(loss), second.level) for loss in losses[8:]]
    assert seen == expected


def test_a_timed_level_depends_on_the_minibatch_alone() -> None:
    curriculum = make(start=1, max_level=101, over=50)
    assert curriculum.timed
    levels = []
    for step in (0, 1, 25, 50, 70):
        curriculum.rise(step)
        levels.append(curriculum.level)
    assert levels == [1, 3, 51, 101, 101]
    assert not make().timed


def test_a_timed_curriculum_needs_an_end() -> None:
    with pytest.raises(ValueError, match=r"curriculum\.over: .*max_level"):
        make(over=10)
