"""A run that goes on: what is refused by name, what needs to be accepted, and that refusing changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsam.lab.training import checkpoint
from sparsam.lab.training.folder import RunFolder
from sparsam.lab.training.loop import train
from sparsam.lab.training.resume import Refused, refuse_changes


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve minibatches; tests work on copies."""
    from sparsam.lab.training.config import RunConfig

    settings = ["model.name=lstm", "model.hidden_size=8", "task.name=copy", 'task.settings={"bits": 2, "max_size": 3}',
                "steps=12", "checkpoint_every=6", "batch_size=4", "eval_batches=1", "tensorboard=false"]  # fmt: skip
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(RunConfig().with_settings(settings), folder, quiet=True)
    return folder


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ended, tmp_path / "run"))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def go_on(folder: Path, *settings: str, **options: Any) -> Any:
    return train(RunFolder(folder).config().with_settings(settings), folder, resume=True, quiet=True, **options)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("model.hidden_size=32", r"model.hidden_size \(8 to 32\)"),
        ("model.name=ntm", r"model.name \('lstm' to 'ntm'\)"),
        ("task.name=sort", "task.name"),
        ("task.settings.bits=3", "task.settings.bits"),
        ("optimizer.name=rmsprop", r"optimizer.name \('adam' to 'rmsprop'\)"),
        ("batch_size=5", "batch_size"),
        ("seed=1", "seed"),
        ("curriculum.start=2", "curriculum"),
    ],
)
def test_what_cannot_change_is_named_and_nothing_is_written(run: Path, setting: str, named: str) -> None:
    before = content(run)
    with pytest.raises(Refused, match=named):
        go_on(run, setting, "steps=20")
    after = content(run)
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before
    assert go_on(run, "steps=14").step == 14


def test_what_may_change_does(run: Path) -> None:
    outcome = go_on(run, "steps=14", "optimizer.learning_rate=0.01", "log_every=1", "model.engine=reference")
    assert outcome.step == 14
    assert RunFolder(run).config().optimizer.learning_rate == 0.01


def test_a_checkpoint_that_does_not_fit_leaves_the_config_alone(run: Path) -> None:
    """The settings agree, the checkpoint does not: it was made by something else."""
    values = json.loads((run / "config.json").read_text())
    values["model"]["hidden_size"] = 16
    (run / "config.json").write_text(json.dumps(values))
    with pytest.raises(checkpoint.CheckpointError, match="do not fit this model"):
        go_on(run, "steps=20")
    assert json.loads((run / "config.json").read_text()) == values


@pytest.mark.parametrize("package", ["torch", "sparsam", "numpy"])
def test_other_versions_must_be_accepted(run: Path, package: str) -> None:
    origin = json.loads((run / "origin.json").read_text())
    origin["versions"][package] = "0.0.1"
    (run / "origin.json").write_text(json.dumps(origin))
    with pytest.raises(Refused, match=rf"{package} 0.0.1 .*--accept versions"):
        go_on(run, "steps=14")
    with pytest.warns(UserWarning, match="0.0.1"):
        assert go_on(run, "steps=14", accept=["versions"]).step == 14
    assert go_on(run, "steps=15").step == 15  # asked once
    assert json.loads((run / "origin.json").read_text())["resumed"][0]["versions"]["torch"] == torch.__version__


def test_another_number_of_processes_must_be_accepted(run: Path) -> None:
    step, weights, state = checkpoint.load_newest(run / "checkpoints")
    text = RunFolder(run).config().to_json()
    checkpoint.save(run / "checkpoints", step, weights, state | {"processes": 2}, text)
    with pytest.raises(Refused, match=r"2 processes .* now there are 1; --accept processes"):
        go_on(run, "steps=14")
    with pytest.warns(UserWarning, match="accepted"):
        go_on(run, "steps=14", accept=["processes"])


def test_other_data_must_be_accepted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsam.lab.tasks.bits.copy import Copy

    origin = json.loads((run / "origin.json").read_text())
    (run / "origin.json").write_text(json.dumps(origin | {"data": "one"}))
    monkeypatch.setattr(Copy, "fingerprint", "two", raising=False)
    with pytest.raises(Refused, match="--accept data"):
        go_on(run, "steps=14")
    with pytest.warns(UserWarning, match="data"):
        go_on(run, "steps=14", accept=["data"])


def test_no_whole_checkpoint_is_an_error_and_accepted_keeps_the_log(run: Path) -> None:
    for place in (run / "checkpoints").iterdir():
        (place / "model.safetensors").write_bytes(b"")
    log = (run / "log.jsonl").read_bytes()
    with pytest.raises(checkpoint.CheckpointError, match="--accept damage starts again at minibatch 0"):
        go_on(run)
    assert (run / "log.jsonl").read_bytes() == log
    with pytest.warns(UserWarning, match="starts again at minibatch 0"):
        assert go_on(run, accept=["damage"]).step == 12
    assert (run / "log-before.jsonl").read_bytes() == log


def test_an_unknown_word_is_not_accepted(run: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'versions'"):
        go_on(run, accept=["version"])


def test_a_run_goes_on_without_the_weights_it_began_with(run: Path, tmp_path: Path) -> None:
    config = RunFolder(run).config().with_settings([f"weights={json.dumps(str(run))}", "steps=2"])
    train(config, tmp_path / "second", quiet=True)
    shutil.rmtree(run)
    config.steps = 4
    assert train(config, tmp_path / "second", resume=True, quiet=True).step == 4


def test_a_config_of_the_first_format_goes_on(run: Path) -> None:
    """It had every model's settings, whatever the model."""
    values = json.loads((run / "config.json").read_text())
    first = {"memory_size": 1024, "word_size": 32, "num_heads": 4, "k": 4, "index": "linear", "engine": "native"}
    values["model"] = values["model"] | first | {"index_settings": {}, "extra": {}}
    for later in ("when_workers_die", "wait_seconds", "loggers"):
        values.pop(later)
    (run / "config.json").write_text(json.dumps(values))
    assert go_on(run, "steps=14").step == 14


def test_where_minibatches_are_made_may_change() -> None:
    from sparsam.lab.training.config import RunConfig

    before = RunConfig().with_settings(["task.name=babi", "task.training.device=cuda"])
    refuse_changes(before, RunConfig().with_settings(["task.name=babi"]))
    with pytest.raises(Refused, match=r"task\.training\.groups"):
        refuse_changes(before, RunConfig().with_settings(["task.name=babi", "task.training.groups=2"]))
