"""Every recipe constructs, and each of its kinds of run takes a step (on a small memory)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparsam.lab.recipes import RECIPES, Experiment, recipe
from sparsam.lab.recipes.experiment import reproduce, table
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.learner import Learner
from sparsam.start import Start

OWN = ("figure2", "figure2-rates", "figure3", "extrapolation", "copy-lengths", "demo")


@pytest.mark.parametrize("name", OWN)
def test_constructs_complete_configs_with_unique_names(name: str) -> None:
    experiment = recipe(name)()
    assert experiment.name == name and experiment.runs
    for config in experiment.runs.values():
        assert RunConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("name", OWN)
def test_each_kind_of_run_takes_one_step(name: str) -> None:
    experiment = recipe(name)()
    seen = set()
    for config in experiment.runs.values():
        kind = (config.task.name, config.model.name, config.model.index)
        if kind in seen:
            continue
        seen.add(kind)
        memory = ["model.memory_size=64"] if config.model.memory_size else []
        small = config.with_settings([*memory, "model.hidden_size=8", "batch_size=2"])
        learner = Learner(small)
        loss = learner.gradient(0, 2 if config.curriculum else None)
        before = learner.flat.parameters.clone()
        learner.apply(0, loss)
        assert not before.equal(learner.flat.parameters)


def test_the_papers_settings() -> None:
    figure2 = recipe("figure2")()
    assert sum("sam-linear" in name and "copy" in name for name in figure2.runs) >= 5
    assert sum("ntm" in name and "copy" in name for name in figure2.runs) == 3
    optimizers = {repr(config.optimizer) for config in figure2.runs.values()}
    assert len(optimizers) == 1  # the same for all models
    assert all(config.threads == 1 for config in figure2.runs.values())
    figure3 = recipe("figure3")()
    for task in ("recall", "copy", "sort"):
        runs = [config for name, config in figure3.runs.items() if name.startswith(task)]
        assert len({repr((config.optimizer, config.curriculum, config.task)) for config in runs}) == 1
    sizes = {config.model.name: config.model.memory_size for config in figure3.runs.values()}
    assert sizes == {"sam": 2_000_000, "ntm": 64, "dam": 64}


def test_the_papers_rates_are_tried_on_dam_with_all_else_as_in_figure_2() -> None:
    runs = recipe("figure2-rates")().runs
    tried = {(config.task.name, config.optimizer.learning_rate) for config in runs.values()}
    assert tried == {(task, rate) for task in ("copy", "recall") for rate in (1e-5, 1e-4, 5e-4, 1e-3)}
    for config in runs.values():
        assert config.optimizer.final_rate is None and config.task.training == {}  # constant; one cue
        like = recipe("figure2")(models=["dam"]).runs["copy-dam-0"]
        assert (config.model, config.batch_size, config.eval_every) == (like.model, like.batch_size, like.eval_every)


def test_evaluation_asks_for_one_pair_whatever_training_asks_for() -> None:
    for name in ("figure2", "figure3", "extrapolation"):
        tasks = [config.task for config in recipe(name)().runs.values() if config.task.name == "recall"]
        assert tasks and all(task.build().cues == 1 and task.build(for_training=True).cues > 1 for task in tasks)
    (one,) = {repr(config.task) for config in recipe("figure2")(tasks=["recall-one-cue"]).runs.values()}
    assert "cues" not in one


def test_extrapolation_is_figure_3_up_to_its_highest_level() -> None:
    longer = recipe("extrapolation")().runs["recall-sam-linear-0"]
    assert longer.optimizer.full_rate_level and longer.optimizer.patience  # a long run in one go
    figure3 = recipe("figure3")(max_level=10_000).runs["recall-sam-linear-0"]
    assert longer.curriculum == figure3.curriculum and longer.optimizer == figure3.optimizer


def test_figure_3_has_recall_as_in_the_paper() -> None:
    """Key, then value; one cue in training as well; from level 2; all models begin alike as far as they can."""
    experiment = recipe("figure3")(tasks=["recall-one-cue"], models=["sam-linear", "sam-lsh", "dam", "ntm"])
    for name, config in experiment.runs.items():
        task = config.task.build(for_training=True)
        assert (task.cues, task.paired, config.curriculum.start) == (1, False, 2), name
        model = config.model.build(task.input_size, task.output_size)
        biases = model.controller.bias_hh_l0.detach().view(4, -1).mean(1)
        assert biases[1] < -1.8 and biases[[0, 2, 3]].abs().max() < 0.1, name  # the forget gate alone
    starts = {name: config.model.start for name, config in experiment.runs.items()}
    assert starts["recall-one-cue-dam-0"] == starts["recall-one-cue-sam-linear-0"]


def test_recipes_with_recorded_results_keep_the_first_weights_they_had() -> None:
    """The default of the models may change; what a recorded command starts from may not."""
    opened = Start(forget=-2.0, write=2.0, reuse=-5.0, sharpness=3.0, words=2.0)
    for name, tasks, expected in (
        ("figure2", ["copy", "recall", "sort"], {"plain"}),
        ("figure3", ["copy", "recall", "sort"], {Start()}),
        ("figure3", ["recall-one-cue"], {opened, Start(forget=-2.0)}),
        ("babi", ["augmented"], {"plain", Start(forget=1.0, write=1.0, reuse=-2.0, sharpness=2.0, words=2.0)}),
    ):
        runs = recipe(name)(tasks=tasks).runs.values()
        assert {run.model.start for run in runs if run.model.name != "lstm"} == expected, (name, tasks)
    for name in RECIPES:  # every other one: said, not left to the default
        for run in recipe(name)().runs.values():
            assert not isinstance(run, RunConfig) or run.model.start != "open", (name, run.name)


def test_a_wrong_name_suggests_the_right_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'figure2'"):
        recipe("figure22")
    assert set(OWN) <= set(RECIPES)


def test_reproduce_runs_what_is_left_and_writes_table_json_and_plot(tmp_path: Path) -> None:
    base = RunConfig().with_settings(
        [
            "model.name=lstm",
            "model.hidden_size=8",
            "steps=6",
            "eval_every=3",
            "eval_batches=1",
            "eval_batch_size=2",
            "tensorboard=false",
            "task.settings.max_size=3",
        ]
    )
    runs = {f"copy-lstm-{seed}": base.with_settings([f"seed={seed}"]) for seed in (0, 1)}
    experiment = Experiment("tiny", "A tiny experiment", runs, solved=1000.0, test_sizes=(2, 4))
    said: list[str] = []
    rows = reproduce(experiment, tmp_path, said.append, quiet=True)
    assert len(rows) == 2 and rows[0]["solved_at"] == 24 and rows[0]["tests"]["4"]["chance"] == 12
    assert 0 < rows[0]["lowest"] <= rows[0]["bits_per_sequence"] and "levels" not in rows[0]
    assert json.loads((tmp_path / "summary.json").read_text())["rows"] == rows
    assert (tmp_path / "copy.png").exists() and "at 4" in (tmp_path / "summary.md").read_text()
    assert table(rows).count("\n") == 3
    reproduce(experiment, tmp_path, said.append, quiet=True)
    assert len(said) == 2  # nothing was run twice
    experiment.runs["copy-lstm-2"] = base.with_settings(["seed=2"])
    assert reproduce(experiment, tmp_path, said.append, quiet=True, collect=True) == rows and len(said) == 2
    with pytest.raises(ValueError, match="holds no run"):
        reproduce(experiment, tmp_path / "nowhere", collect=True)


def test_the_summary_of_a_curriculum_says_when_levels_were_reached(tmp_path: Path) -> None:
    settings = ["model.name=lstm", "model.hidden_size=8", "steps=6", "eval_every=3", "eval_batches=1",
                "tensorboard=false", "curriculum.threshold=9.0", "curriculum.patience=2",
                "curriculum.max_level=8"]  # fmt: skip
    experiment = Experiment("tiny", "A tiny curriculum", {"run": RunConfig().with_settings(settings)})
    (row,) = reproduce(experiment, tmp_path, quiet=True)
    assert list(row["levels"]) == ["4", "8"] and row["level"] == 8
    assert row["levels"]["4"] <= row["levels"]["8"] <= row["seconds"] + 0.1
    assert (tmp_path / "copy-levels.png").exists()
