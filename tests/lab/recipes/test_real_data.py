"""The bAbI recipe: complete configs of all models, and its table."""

from __future__ import annotations

from sparsam.lab.recipes import babi
from sparsam.lab.training.config import RunConfig


def test_runs_cover_all_six_models_and_sam_ann():
    experiment = babi.babi(seeds=2, budget=10.0, steps=7)
    assert len(experiment.runs) == 2 * 7
    models = {(config.model.name, config.model.index not in (None, "linear")) for config in experiment.runs.values()}
    assert models == {(name, False) for name in ("lstm", "ntm", "dam", "sam", "dnc", "sdnc")} | {("sam", True)}
    for name, config in experiment.runs.items():
        assert config.name == name and config.seconds == 10.0 and config.steps == 7
        assert RunConfig.from_json(config.to_json()) == config
    assert len({config.seed for config in experiment.runs.values()}) == 2
    assert list(babi.babi(seeds=1, models=["sdnc"]).runs) == ["babi-sdnc-0"]


def test_babi_report_tests_every_run_that_has_ended(tmp_path, monkeypatch):
    errors = {"babi-sam-0": (0.2, 0.1), "babi-sam-1": (0.1, 0.3), "babi-paper-sam-0": (0.4, 0.45)}  # validation, test
    for name in errors:
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").touch()
    (tmp_path / "babi-sam-2").mkdir()

    def evaluated(run, split):
        return {"mean": errors[run.name][split == "test"], "failed": 20, "notes": ["task 3 ..."]}

    monkeypatch.setattr(babi, "evaluate_run", evaluated)
    lines = babi.report(tmp_path).splitlines()
    assert lines[2:] == [
        "| babi-paper-sam-0 | 40.0 | 45.0 | 20 |",
        "| babi-sam-0 | 20.0 | 10.0 | 20 |",
        "| babi-sam-1 | 10.0 | 30.0 | 20 |",
        "",
        "* task 3 ...",
    ]


def test_babi_has_one_optimiser_for_all_models_and_no_help_in_the_papers_protocol():
    runs = babi.babi(seeds=1, tasks=("augmented", "paper"), steps=6_000).runs
    assert len({str(config.optimizer) for config in runs.values()}) == 1
    for name, config in runs.items():
        helped = "paper" not in name
        assert (config.curriculum is not None) == helped and bool(config.task.training) == helped
        assert not any(getattr(config.model, name) for name in ("dropout", "bypass_dropout", "layer_norm", "masked"))


def test_babi_in_the_papers_protocol_is_the_same_for_all_models():
    runs = babi.babi(seeds=1, tasks=("paper",)).runs
    assert all(config.task.settings == {"balance": "story", "scale": 12.0, "groups": 4} for config in runs.values())
    assert {config.batch_size for config in runs.values()} == {32}
    starts = {config.model.name: config.model.start for config in runs.values()}
    assert starts["sam"] == starts["sdnc"] == starts["dam"]
    assert starts["ntm"] == starts["dnc"] and starts["ntm"].forget == starts["sam"].forget
    assert starts["lstm"] is None  # its own state is the only memory that it has


def test_babi_knows_how_long_what_is_easy_first_lasts():
    runs = babi.babi(seeds=1, steps=6_000).runs
    assert runs["babi-sdnc-0"].curriculum.over == 1_000
    assert babi.babi(seeds=1).runs["babi-sdnc-0"].curriculum.over == 6_000
    assert babi.babi(seeds=1, budget=60.0).runs["babi-sdnc-0"].optimizer.final_by == "seconds"
