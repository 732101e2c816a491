"""Records: what a command's runs reached, and that nothing else gets into one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparsam.lab.cli import build_app
from sparsam.lab.recipes import record
from sparsam.lab.recipes.experiment import Experiment, reproduce
from sparsam.lab.training.config import RunConfig

ROOT = Path(__file__).parents[3]
TINY = [
    "model.name=lstm", "model.hidden_size=4", "task.name=copy", 'task.settings={"bits": 2, "max_size": 3}', "steps=6",
    "batch_size=2", "eval_every=3", "eval_batches=1", "tensorboard=false", "name=copy-lstm-0",
]  # fmt: skip


@pytest.fixture
def ended(tmp_path: Path) -> tuple[Experiment, Path]:
    pytest.importorskip("matplotlib", reason="plots need the lab extra")
    config = RunConfig().with_settings(TINY)
    experiment = Experiment(
        "tiny", "Tiny", {config.name: config}, claim="copies", protocol="ours", differences=("all",)
    )
    reproduce(experiment, tmp_path / "runs", report=lambda _: None, quiet=True)
    (tmp_path / "runs" / config.name / "test.json").write_text('{"mean": 0.5}')
    return experiment, tmp_path / "runs"


def test_a_record_has_what_the_run_folder_has(ended: Any, tmp_path: Path) -> None:
    experiment, out = ended
    made = record.write(tmp_path / "tiny.json", experiment, out, "sparsam reproduce tiny")
    assert made == json.loads((tmp_path / "tiny.json").read_text())
    run = made["runs"]["copy-lstm-0"]
    assert (run["model"], run["seed"], run["minibatches"], run["ended"]) == ("lstm", 0, 6, "steps")
    assert [step for step, _ in run["curve"]] == [3, 6] and run["error"] == "bits_per_sequence"
    assert run["tests"] == {"test": {"mean": 0.5}} and run["machine"]["system"]
    assert made["claim"] == "copies" and made["differences"] == ["all"]


def test_a_run_that_was_cut_off_counts_where_the_experiment_says_so(ended: Any, tmp_path: Path) -> None:
    experiment, out = ended
    (out / "copy-lstm-0" / "result.json").unlink()
    with pytest.raises(ValueError, match="no run of tiny that has ended"):
        record.write(tmp_path / "tiny.json", experiment, out, "sparsam reproduce tiny")
    partial = replace(experiment, cut_off=True, beside=lambda folder: {"besides": folder.name})
    assert [row["run"] for row in reproduce(partial, out, report=lambda _: None, collect=True)] == ["copy-lstm-0"]
    made = record.write(tmp_path / "tiny.json", partial, out, "sparsam reproduce tiny")
    run = made["runs"]["copy-lstm-0"]
    assert (run["minibatches"], run["ended"]) == (6, "cut off") and made["besides"] == "runs"


def test_a_second_command_adds_its_runs(ended: Any, tmp_path: Path) -> None:
    experiment, out = ended
    other = replace(experiment, runs={"copy-lstm-1": replace(experiment.runs["copy-lstm-0"], seed=1)})
    reproduce(other, out, report=lambda _: None, quiet=True)
    record.write(tmp_path / "tiny.json", experiment, out, "first")
    made = record.write(tmp_path / "tiny.json", other, out, "second")
    assert {name: run["command"] for name, run in made["runs"].items()} == {
        "copy-lstm-0": "first",
        "copy-lstm-1": "second",
    }
    assert made["commands"] == ["first", "second"]


def test_a_run_with_other_settings_is_refused(ended: Any, tmp_path: Path) -> None:
    experiment, out = ended
    longer = replace(experiment, runs={"copy-lstm-0": replace(experiment.runs["copy-lstm-0"], steps=7)})
    with pytest.raises(ValueError, match=r"copy-lstm-0: expected the settings of this command, .* another steps"):
        record.write(tmp_path / "tiny.json", longer, out, "sparsam reproduce tiny")
    with pytest.raises(ValueError, match="no run of tiny that has ended"):
        record.write(tmp_path / "tiny.json", experiment, tmp_path / "elsewhere", "sparsam reproduce tiny")
    assert not (tmp_path / "tiny.json").exists()


def test_where_a_run_was_carried_out_does_not_matter(ended: Any, tmp_path: Path) -> None:
    experiment, out = ended
    config = experiment.runs["copy-lstm-0"].with_settings(["device=cuda", "eval_every=2", "task.training.device=cuda"])
    record.write(tmp_path / "tiny.json", replace(experiment, runs={"copy-lstm-0": config}), out, "on a GPU")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="protocol"):
        record.check({"schema": 1, "claim": "", "commands": [], "differences": [], "runs": {}})
    with pytest.raises(ValueError, match=r"runs\.x\.commit"):
        record.check({key: [] for key in record.KEYS} | {"runs": {"x": {}}})


@pytest.mark.parametrize("file", sorted((ROOT / "docs").glob("[!p]*/*.json")), ids=lambda file: file.stem)
def test_every_record_in_docs_has_all_that_it_should(file: Path) -> None:
    record.check(json.loads(file.read_text(encoding="utf-8")))


def test_the_command_of_a_record_is_the_one_that_was_given(tmp_path: Path) -> None:
    file, out = tmp_path / "demo.json", str(tmp_path / "demo")
    options = ["--seeds", "1", "--steps", "2", "--model", "lstm", "--task", "copy", "--set", "batch_size=2"]
    more = ["--set", "eval_batches=1", "--set", "eval_batch_size=2", "--out", out, "--record", str(file), "-q"]
    result = CliRunner().invoke(build_app(), ["reproduce", "figure2", *options, *more])
    assert result.exit_code == 0, result.output
    (command,) = json.loads(file.read_text())["commands"]
    assert command == (
        "sparsam reproduce figure2 --seeds 1 --steps 2 --task copy --model lstm --set batch_size=2 "
        "--set eval_batches=1 --set eval_batch_size=2"
    )
