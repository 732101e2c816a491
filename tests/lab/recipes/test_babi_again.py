"""Further parts of bAbI: what a run has failed is drawn more often, read off each run by itself."""

from __future__ import annotations

import json
import os

import pytest

from sparsam.lab.recipes.babi_again import SHARE, babi_again, emphasis, part_before, validation_errors

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


def ended(folder, errors):
    """A run of the part before, with these errors on the validation stories."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    (folder / "validation.json").write_text(json.dumps({"tasks": {str(task): e for task, e in errors.items()}}))


def prepared(out, seeds=1, model="sam-linear"):
    experiment = babi_again(seeds=seeds, models=[model])
    assert experiment.prepare is not None
    experiment.prepare(experiment, out)
    return experiment.runs


def test_each_run_goes_on_from_its_own_weights_with_its_own_tasks(tmp_path):
    for seed, failed in enumerate((19, 17)):
        ended(tmp_path / "babi" / f"babi-sam-linear-{seed}", SOLVED | {failed: 0.8})
    runs = prepared(tmp_path / "babi-again", seeds=2)
    for seed, failed in enumerate(("19", "17")):
        run = runs[f"babi-sam-linear-{seed}"]
        assert run.weights == str(tmp_path / "babi" / f"babi-sam-linear-{seed}")
        assert run.task.settings["emphasis"] == {failed: 19.0}
        assert run.curriculum is None and "easy_first" not in run.task.training
        assert run.task.training["retell"] == 0.5  # the rest of the augmentation stays


def test_task_16_begins_with_what_it_needs_where_it_has_failed(tmp_path):
    ended(tmp_path / "babi" / "babi-sam-linear-0", SOLVED | {16: 0.5})
    (run,) = prepared(tmp_path / "babi-again").values()
    assert run.task.training["easy_first"] == [16] and run.curriculum is not None and run.curriculum.over


def test_a_run_that_has_failed_nothing_does_not_go_on(tmp_path):
    ended(tmp_path / "babi" / "babi-sam-linear-0", SOLVED)
    ended(tmp_path / "babi" / "babi-sam-linear-1", SOLVED | {19: 0.8})
    assert list(prepared(tmp_path / "babi-again", seeds=2)) == ["babi-sam-linear-1"]
    with pytest.raises(ValueError, match="none of these runs has failed"):
        prepared(tmp_path / "babi-again")


@pytest.mark.parametrize(
    ("out", "before"),
    [("babi-again", "babi"), ("babi-again-2", "babi-again"), ("babi-again-3", "babi-again-2"), ("mine", "babi")],
)
def test_a_part_goes_on_from_the_one_before(tmp_path, out, before):
    assert part_before(tmp_path / out) == tmp_path / before


def test_errors_from_before_a_run_went_on_are_asked_anew(tmp_path, monkeypatch):
    run = tmp_path / "babi" / "babi-sam-linear-0"
    ended(run, SOLVED)
    os.utime(run / "validation.json", (0, 0))
    asked = []

    def evaluate_run(folder, split):
        asked.append((folder, split))
        return {"tasks": {"19": 0.5}}

    monkeypatch.setattr("sparsam.lab.recipes.babi.evaluate_run", evaluate_run)
    assert validation_errors(run) == {19: 0.5} and asked == [(run, "validation")]


@pytest.mark.parametrize(("out", "command"), [("babi-again", "babi"), ("babi-again-2", "babi-again")])
def test_without_the_part_before_its_command_is_named(tmp_path, out, command):
    with pytest.raises(FileNotFoundError, match=f"sparsam reproduce {command} --out"):
        prepared(tmp_path / out, model="sdnc")
