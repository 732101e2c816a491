"""POPGym's recipes: carried out, summed up, recorded and drawn, with runs of a few steps."""

import dataclasses
import json

import pytest

from sparsam.lab.agents.environments import POPGYM
from sparsam.lab.recipes import recipe, record
from sparsam.lab.recipes.experiment import reproduce
from sparsam.lab.recipes.popgym import report

FEW = ("steps=2048", "block=1024", "ppo.batch=8", "ppo.length=16", "ppo.epochs=1")


def few(name, **options):
    experiment = recipe(name)(seeds=1, **options)
    experiment.runs = {run: config.with_settings(FEW) for run, config in experiment.runs.items()}
    return experiment


def test_a_horizon_is_tested_once_and_recorded(tmp_path):
    experiment = few("popgym-horizon", tasks=["RepeatFirst"], models=["gru", "lstm"])
    experiment.lengths = (100, 1_500)
    rows = reproduce(experiment, tmp_path / "out", report=lambda line: None, quiet=True)
    assert [row["core"] for row in rows] == ["gru", "lstm"]
    for row in rows:
        assert set(row["tests"]) == {"100", "1500"} and all(-1 <= t["share"] <= 1 for t in row["tests"].values())
    kept = (tmp_path / "out" / "RepeatFirst-gru-0" / "tests.json").stat().st_mtime_ns
    assert reproduce(experiment, tmp_path / "out", report=lambda line: None, quiet=True) == rows
    assert (tmp_path / "out" / "RepeatFirst-gru-0" / "tests.json").stat().st_mtime_ns == kept
    assert (tmp_path / "out" / "popgym-horizon.png").stat().st_size > 10_000
    assert "| RepeatFirst |" in report(tmp_path / "out")

    made = record.write(tmp_path / "record.json", experiment, tmp_path / "out", "sparsam reproduce popgym-horizon")
    run = made["runs"]["RepeatFirst-lstm-0"]
    assert run["environment"] == "RepeatFirst" and run["tests"]["tests"] == rows[1]["tests"]
    assert [step for step, _ in run["curve"]] == [1024, 2048] and run["steps_per_second"] > 0
    assert json.loads((tmp_path / "record.json").read_text()) == made

    experiment.runs = {name: dataclasses.replace(run, seed=7) for name, run in experiment.runs.items()}
    with pytest.raises(ValueError, match="another seed"):
        record.write(tmp_path / "record.json", experiment, tmp_path / "out", "sparsam reproduce popgym-horizon")


def test_a_result_that_says_nothing_is_a_line_without_figures(tmp_path):
    experiment = few("popgym-horizon", tasks=["TMaze"], models=["gru"])
    experiment.lengths = (100,)
    reproduce(experiment, tmp_path, report=lambda line: None, quiet=True)
    (tmp_path / "TMaze-gru-0" / "result.json").write_text("{}")
    (row,) = reproduce(experiment, tmp_path, report=lambda line: None, quiet=True, collect=True)
    assert row["mean_return"] is None and row["steps_per_second"] is None
    assert "| TMaze | - |" in report(tmp_path)


def test_popgym_is_whole_rounds_of_every_environment():
    runs = list(recipe("popgym")().runs.values())
    first = [run for run in runs if run.seed == 0]
    assert runs[: len(first)] == first and {run.task.name for run in first} == set(POPGYM) and len(first) == 49
    assert (
        len(
            {
                dataclasses.replace(run, name="", seed=0, task=first[0].task, model=first[0].model).to_json()
                for run in runs
            }
        )
        == 1
    )


@pytest.mark.parametrize("options, named", [({"tasks": ["Chess"]}, "task"), ({"models": ["elman"]}, "model")])
def test_a_wrong_name_is_said(options, named):
    with pytest.raises(ValueError, match=named):
        recipe("popgym")(**options)
