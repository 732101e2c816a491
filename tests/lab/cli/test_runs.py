"""Runs by the beginning of their name, the last one by default; help with defaults; tables and JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the lab extra")
from sparsam.lab.cli.eval import table
from sparsam.lab.cli.model_options import described
from sparsam.lab.cli.runs import complete, find_run
from sparsam.models import MODELS
from tests.lab.cli.conftest import run


def make(name: str, time: int) -> Path:
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    os.utime(folder / "config.json", (time, time))
    return folder


def test_a_run_by_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = make("copy-sam-0", 20), make("copy-sam-1", 30), make("copy-lstm-0", 10)
    (Path("runs") / "copy-sam-notes").mkdir()  # no run
    assert find_run(first) == first
    assert find_run("copy-sam") == find_run("runs/copy-sam") == second
    assert find_run("copy-l") == third
    assert find_run(None) == find_run("last") == second
    assert "the last run of 2: runs/copy-sam-1" in capsys.readouterr().err
    assert complete("copy-s") == ["copy-sam-0", "copy-sam-1"]
    with pytest.raises(FileNotFoundError, match="sort holds no run; runs has copy-lstm-0, copy-sam-0, copy-sam-1"):
        find_run("sort")
    with pytest.raises(FileNotFoundError):
        find_run("elsewhere/copy")


def test_without_any_run() -> None:
    with pytest.raises(FileNotFoundError, match="no run is named; runs has no runs"):
        find_run(None)


def test_readmes_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`train` writes runs/copy-sam-0, README evaluates and plots runs/copy-sam; without a name it is the last one."""
    small = ["--memory-size", "32", "--hidden-size", "8", "--steps", "4", "--set", "task.settings.max_size=2",
             "--set", "eval_batches=1", "--set", "tensorboard=false", "-q"]  # fmt: skip
    assert run("train", "copy", "--model", "sam", *small) == 0
    assert Path("runs/copy-sam-0/config.json").exists()
    for arguments in (["eval", "runs/copy-sam", "--batches", "1"], ["eval", "--batches", "1", "--json"], ["plot"]):
        assert run(*arguments) == 0
    assert run("train", "--resume", "last", "--steps", "5", "-q") == 0
    assert Path("runs/copy-sam-0/memory.png").exists()


def test_weights_by_name_where_no_run_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("eval", "copy-sam", "--batches", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["bits_per_sequence"] < 0.5
    assert run("eval", "copy-samm", "--batches", "1") == 2


def test_the_tasks_of_babi_are_a_table() -> None:
    row = {
        "size": None,
        "error_rate": 0.07,
        "failed_tasks": 1.0,
        "loss": 0.3,
        "task_1": 0.0,
        "task_16": 0.5,
        "task_2": 0.03,
    }
    lines = table(row).splitlines()
    assert lines[0] == "as trained: error rate 0.07, failed tasks 1, loss 0.3"
    assert [line.split() for line in lines[2:]] == [
        ["1", "single", "supporting", "fact", "0.0%"],
        ["2", "two", "supporting", "facts", "3.0%"],
        ["16", "basic", "induction", "50.0%", "failed"],
    ]


def test_help_shows_defaults_and_every_setting_of_every_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("train", "--help") == 0
    text = capsys.readouterr().out
    for option in ("--memory-size", "--k-links", "--similarity", "--discount", "--logger", "--force", "--accept"):
        assert option in text
    for default in ("65536 (sam, sdnc), 128 (dam, ntm, dnc)", "10000", "adam", "0.001", "linear", "cosine"):
        assert f"[default: {default}]" in text
    assert all(name in text for name in MODELS)


def test_options_are_described_by_the_models_docstrings() -> None:
    assert described("sam")["delta"].startswith("a row counts as accessed")
    assert described("sam")["word_size"] == "W, numbers in a word."


def test_data_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    from sparsam.lab.data.babi import open_babi
    from sparsam.lab.data.locate import MissingData

    try:
        open_babi()
    except MissingData:
        pytest.skip("the bAbI download is not on this machine (set SPARSAM_DATA)")
    assert run("data", "babi", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["prepared"]["test"]["questions"] == 20_000
