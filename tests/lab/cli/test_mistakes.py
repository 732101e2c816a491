"""A user's mistake is one line and an exit code, never a traceback, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("typer", reason="the command line needs the lab extra")
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.loop import train
from tests.lab.cli.conftest import run

SMALL = ["model.name=lstm", "model.hidden_size=8", "task.name=copy", "task.settings.max_size=3", "steps=4",
         "eval_batches=1", "tensorboard=false"]  # fmt: skip


@pytest.fixture
def trained() -> Path:
    train(RunConfig().with_settings(SMALL), "runs/copy-lstm-0", quiet=True)
    return Path("runs/copy-lstm-0")


@pytest.mark.parametrize("command", [["train", "--resume"], ["eval"], ["view"], ["plot"]])
def test_a_run_with_a_task_of_ones_own_says_how_to_name_it(
    trained: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In its config and in the config that its checkpoint carries."""
    Path("sneaky.py").write_text("open('canary', 'w').close()")
    config = RunConfig.load(trained / "config.json")
    config.task.name = "sneaky:T"
    (trained / "config.json").write_text(config.to_json())
    step, weights, state = checkpoint.load_newest(trained / "checkpoints")
    checkpoint.save(trained / "checkpoints", step, weights, state, config.to_json())
    assert run(*command, str(trained)) == 2
    assert "--task sneaky:T" in capsys.readouterr().err
    assert not Path("canary").exists()


def test_a_near_name_of_a_run_or_of_weights_is_told(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, meant in (("babi-samm", "babi-sam"), ("copy-lstn-0", "copy-lstm-0")):
        assert run("view", given) == 2
        assert f"did you mean '{meant}'" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_no_machine_has(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("view", "babi-sam", "--live", "--port", port) == 2
    assert f"port: expected a number in 0..65535, got {port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--engine", "native", "--model", "ntm"], 1, "engine 'native' cannot run this NTM"),
        (
            ["--model", "lstm", "--k", "3", "--index", "kdtree", "--engine", "cuda"],
            2,
            "model.k: lstm has no such setting",
        ),
        (["--model", "lstm", "--memory-size", "64"], 2, "model.memory_size: lstm has no such setting"),
        (["--device", "cuda:99"], 2, "device: no such device"),
        (["--device", "gpu"], 2, "device: expected cpu, cuda or cuda:N"),
        (["--weights", "empty.safetensors"], 1, "not a weights file that can be read"),
        (["--workers", "-1"], 2, "workers: expected 0"),
        (["--accept", "version"], 2, "did you mean 'versions'"),
        (["--config", "list.json"], 2, "list.json: config: expected an object"),
        (["--config", "bytes.json"], 2, "bytes.json"),
        (["--config", "outside.json"], 2, "name: expected the name of a folder"),
        (["--logger", "nowhere:Logger"], 2, "logger: no module named 'nowhere'"),
        (["--task", "copy:Other"], 2, "expected copy, as TASK says, got copy:Other"),
        (["--config", "own.json"], 2, "--task nowhere:Task"),
        (["--set", "threads=70000"], 2, "threads: expected at most 1,024, got 70000"),
        (["--set", "workers=70000"], 2, "workers: expected at most 1,024"),
        (["--set", "model.num_layers=100000"], 2, "model.num_layers: expected an int in 1..256, got 100000"),
        (
            ["--model", "sam", "--memory-size", "64", "--set", "model.memory_size=32"],
            2,
            "--set model.memory_size: expected 64, as its option says; give one of the two, got 32",
        ),
    ],
)
def test_a_start_that_cannot_be(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty.safetensors").touch()
    Path("list.json").write_text("[1]")
    Path("bytes.json").write_bytes(b"\xff\xfe")
    Path("own.json").write_text(json.dumps({"task": {"name": "nowhere:Task"}}))
    Path("outside.json").write_text(json.dumps({"name": "../../x"}))
    assert run("train", *([] if "own.json" in arguments else ["copy"]), "-q", *arguments) == code
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_task_of_ones_own_says_what_the_protocol_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_half_task.py").write_text("class Half:\n    name = 'half'\n")
    assert run("train", "my_half_task:Half") == 2
    message = capsys.readouterr().err
    assert "lacks sample(), loss(), errors()" in message
    assert "sample(batch_size, generator, level=None)" in message
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizer", "rmsprop"], "cannot change optimizer.name"),
        (["--hidden-size", "32"], "cannot change model.hidden_size"),
        (["--model", "ntm"], "cannot change model.name"),
        (["--set", "task.settings.max_size=5"], "cannot change task.settings.max_size"),
    ],
)
def test_a_mistyped_resume_leaves_the_run_as_it_was(
    trained: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (trained / "config.json").read_bytes()
    assert run("train", "--resume", "copy-lstm", "-q", *arguments) == 2
    assert message in capsys.readouterr().err
    assert (trained / "config.json").read_bytes() == before
    assert run("train", "--resume", "copy-lstm", "-q", "--steps", "6") == 0


@pytest.mark.parametrize("name", ["--size", "--batches", "--batch-size"])
def test_nothing_to_evaluate_is_refused(trained: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("eval", name, "0") == 2
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 100, (2**62).to_bytes(8, "little") + b"{}"])
def test_a_file_that_is_no_weights_file(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("w.safetensors").write_bytes(content)
    assert run("eval", "w.safetensors") == 1
    assert "w.safetensors is not a weights file that can be read" in capsys.readouterr().err


def test_weights_without_a_number_or_a_config(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights, text = checkpoint.load_weights(checkpoint.newest_weights(trained / "checkpoints"))
    assert text is not None
    broken = {name: torch.full_like(tensor, float("nan")) for name, tensor in weights.items()}
    Path("nan.safetensors").write_bytes(checkpoint.weights_to_bytes(broken, text))
    assert run("eval", "nan.safetensors") == 1
    assert "not finite" in capsys.readouterr().err
    Path("bare.safetensors").write_bytes(checkpoint.weights_to_bytes(weights, "{"))
    assert run("eval", "bare.safetensors") == 2
    assert "bare.safetensors: config: expected JSON" in capsys.readouterr().err


def test_eval_says_when_the_newest_checkpoint_is_damaged(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--resume", "copy-lstm", "-q", "--steps", "6") == 0
    (trained / "checkpoints" / "0000000006" / "trainer.pt").write_bytes(b"")
    assert run("eval", "copy-lstm", "--batches", "1") == 1
    assert "minibatch 4 is whole: --accept damage takes it" in capsys.readouterr().err
    assert run("eval", "copy-lstm", "--batches", "1", "--accept", "damage") == 0
    assert "is damaged" in capsys.readouterr().err


def test_force_replaces_a_run(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = [
        "train",
        "copy",
        "--model",
        "lstm",
        "--hidden-size",
        "8",
        "--steps",
        "3",
        "-q",
        "--set",
        "tensorboard=false",
    ]
    assert run(*again) == 2
    assert "--force" in capsys.readouterr().err
    assert run(*again, "--force") == 0
    assert checkpoint.steps(trained / "checkpoints") == [3]
