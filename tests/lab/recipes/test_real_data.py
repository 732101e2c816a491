"""The bAbI recipe: complete configs of all models, and its tables."""

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


def test_paper_columns_have_the_paper_means():
    means = {name: (round(100 * r["mean"], 1), r["failed"]) for name, r in babi.paper_results().items()}
    assert means["sdnc (paper)"] == (2.9, 1)
    assert means["sam (paper)"] == (4.1, 2)
    assert means["dam (paper)"] == (3.3, 2)
    assert means["dnc (paper)"][1] == 4


def test_babi_table_has_a_row_per_task_and_says_what_was_partial():
    ours = {"mean": 0.1, "failed": 20, "tasks": {str(task): 0.1 for task in range(1, 21)}, "notes": ["task 3 ..."]}
    table = babi.results_table({"sam": ours, **babi.paper_results()})
    lines = table.splitlines()
    assert lines[4].startswith("| 3: three supporting facts | 10.0 |")
    assert lines[22].startswith("| mean error (%) | 10.0 |")
    assert lines[23].startswith("| failed (> 5%) | 20 |")
    assert lines[-1] == "* task 3 ..."


def test_babi_report_takes_the_best_by_validation(tmp_path, monkeypatch):
    errors = {"babi-sam-0": (0.2, 0.1), "babi-sam-1": (0.1, 0.3), "babi-paper-sam-0": (0.4, 0.4)}  # validation, test
    for name in errors:
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").touch()

    def evaluated(run, split):
        error = errors[run.name][split == "test"]
        return {"mean": error, "failed": 20, "tasks": {task: error for task in range(1, 21)}, "notes": []}

    monkeypatch.setattr(babi, "evaluate_run", evaluated)
    text = babi.report(tmp_path)
    assert text == (tmp_path / "results.md").read_text()
    assert "| mean error (%) | 30.0 | 28.0 | 5.2 |" in text
    assert "| sam | 2 | 20.0 ± 14.1 | 20.0 ± 0.0 |" in text
    augmented, as_in_paper = text.split("# Babi, the paper's protocol: best runs")[:2]
    assert "sam | 1 |" not in augmented and "| sam | 1 | 40.0 | 20.0 |" in as_in_paper


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
