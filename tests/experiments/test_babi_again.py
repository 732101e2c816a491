"""The second part of bAbI: what a run has failed is drawn more often, read off each run by itself."""

from __future__ import annotations

import json

import pytest

from sparsam.experiments.babi_again import SHARE, babi_again, emphasis

SOLVED = {task: 0.01 for task in range(1, 21)}


@pytest.mark.parametrize("failed", [[19], [17, 19], list(range(1, 16))])
def test_failed_tasks_are_half_of_the_stories(failed):
    factors = emphasis(SOLVED | dict.fromkeys(failed, 0.3))
    assert sorted(map(int, factors)) == failed
    weights = {task: factors.get(str(task), 1.0) for task in SOLVED}
    assert sum(weights[task] for task in failed) == pytest.approx(SHARE * sum(weights.values()))


def test_where_nothing_or_everything_has_failed_all_are_drawn_alike():
    assert emphasis(SOLVED) == {}
    assert emphasis(dict.fromkeys(SOLVED, 0.5)) == {}


def test_each_run_goes_on_from_its_own_weights_with_its_own_tasks(tmp_path):
    for seed, failed in enumerate((19, 17)):
        first = tmp_path / "babi" / f"babi-sam-linear-{seed}"
        first.mkdir(parents=True)
        (first / "result.json").write_text("{}")
        errors = {str(task): error for task, error in (SOLVED | {failed: 0.8}).items()}
        (first / "validation.json").write_text(json.dumps({"tasks": errors}))
    experiment = babi_again(seeds=2, models=["sam-linear"])
    assert experiment.prepare is not None
    experiment.prepare(experiment, tmp_path / "babi-again")
    for seed, failed in enumerate(("19", "17")):
        run = experiment.runs[f"babi-sam-linear-{seed}"]
        assert run.weights == str(tmp_path / "babi" / f"babi-sam-linear-{seed}")
        assert run.task.settings["emphasis"] == {failed: 19.0}
        assert run.start is None and run.curriculum is None and "easy_first" not in run.task.training
        assert run.task.training["retell"] == 0.5  # the rest of the augmentation stays


def test_without_a_first_part_the_command_is_named(tmp_path):
    experiment = babi_again(seeds=1, models=["sdnc"])
    assert experiment.prepare is not None
    with pytest.raises(FileNotFoundError, match="sparsam reproduce babi --out"):
        experiment.prepare(experiment, tmp_path / "babi-again")
